//! One thread that looks, decides and moves, and answers commands between two rounds.
//!
//! - [`setup`]: from the configuration to a world and an engine.
//! - [`monitoring`]: what it does while it cannot look.
//! - [`commands`]: what each command changes.
//! - [`snapshot`]: the view, made once a second while somebody reads it.
//! - [`events`]: what is worth saying, in words.
//! - `guests`: what virtual machines consist of, asked of their QEMU.
//! - [`page_cache`]: what the kernel is told to demote by itself; [`cache_promotion`]: what to
//!   promote.
//! - [`latency`]: tenants' latency, read where it is told to be; `peers`: the thread that reads it.

pub mod cache_promotion;
pub mod commands;
pub mod events;
mod guests;
pub mod latency;
pub mod monitoring;
pub mod page_cache;
mod peers;
pub mod setup;
pub mod snapshot;

use std::collections::VecDeque;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use tierwise_core::engine::Engine;
use tierwise_core::migrate::MoveOutcome;
use tierwise_core::share::{Decision, Share};
use tierwise_core::units::{TenantId, TierId};
use tierwise_driver::{self as driver, Driver, Observer};
use tierwise_linux::process::Reader;
use tierwise_linux::roots::Roots;
use tierwise_linux::settings::Settings;
use tierwise_linux::topology::Host;
use tierwise_linux::world::{Event, LiveWorld};
use tokio::sync::watch;

use crate::config::Config;
use crate::control::Request;
use crate::judgement;
use crate::system::optional::Unavailable;
use crate::view::{DecisionView, Mode, Notice, Snapshot};

/// Decisions and notices kept for the view: a screen of each, a few times over.
const KEPT: usize = 200;

/// How often page cache above caps is shed.
const DEMOTE_INTERVAL: Duration = Duration::from_secs(1);

/// Receivers of the view while nobody reads it: the server's own.
const UNREAD: usize = 1;

/// What a daemon is started with.
pub struct Options {
    /// What the operator wrote.
    pub config: Config,
    /// Where it was read from, for a reload.
    pub file: Option<PathBuf>,
    /// The kernel's file systems.
    pub roots: Roots,
    /// Whether the command line asks for a dry run, whatever the file says.
    pub dry_run: bool,
}

/// What the daemon's thread hears and is heard by.
pub struct Channels {
    /// Commands.
    pub requests: Receiver<Request>,
    /// Ends a wait.
    pub wake: Receiver<()>,
    /// Its other end.
    pub waker: Sender<()>,
    /// Set to end the daemon.
    pub stop: Arc<AtomicBool>,
    /// The view.
    pub views: watch::Sender<Arc<Snapshot>>,
    /// What could not be started.
    pub unavailable: Unavailable,
}

/// The daemon.
pub struct Daemon {
    start: Options,
    channels: Channels,
    started: Instant,
    world: LiveWorld,
    engine: Engine,
    driver: Driver,
    settings: Settings,
    history: History,
    mode: Mode,
    mode_reason: String,
    monitoring: String,
    monitor_tried: Instant,
    paused: bool,
    latency: latency::Readers,
    latencies: latency::known::Known,
    guests: guests::Guests,
    peers: peers::Peers,
    reader: Reader,
    pressure: Vec<Option<f64>>,
    rounds: u64,
    cache_demoted_at: Instant,
    /// The kernel cannot demote page cache: that was said.
    page_cache_refused: bool,
    cache_promotion: cache_promotion::CachePromotion,
}

/// What was decided and what happened, as far as it is shown.
#[derive(Debug, Default)]
struct History {
    /// By tenant and tier: what the policy entitles it to, and why.
    shares: Vec<Vec<Option<(Share, String)>>>,
    decisions: VecDeque<DecisionView>,
    notices: VecDeque<Notice>,
    /// Decisions of the plan at hand.
    fresh: Vec<Decision>,
}

impl History {
    fn notice(&mut self, at: f64, text: impl Into<String>) {
        let text = text.into();
        tracing::info!("{text}");
        if self.notices.len() == KEPT {
            self.notices.pop_front();
        }
        self.notices.push_back(Notice { at, text });
    }

    fn share(&self, tenant: TenantId, tier: TierId) -> Option<&(Share, String)> {
        self.shares.get(tenant.index())?.get(tier.index())?.as_ref()
    }

    /// Takes in the decisions of the last plan.
    fn take_fresh(&mut self, world: &LiveWorld) {
        let fresh = std::mem::take(&mut self.fresh);
        for decision in &fresh {
            let (tenant, tier) = (decision.tenant.index(), decision.tier.index());
            if self.shares.len() <= tenant {
                self.shares.resize_with(tenant + 1, Vec::new);
            }
            let tiers = &mut self.shares[tenant];
            if tiers.len() <= tier {
                tiers.resize_with(tier + 1, || None);
            }
            let (share, because) = tiers[tier].get_or_insert_with(|| (Share::FREE, String::new()));
            // The same rule with other numbers each second is no news; another share is.
            let same = *share == decision.share && !because.is_empty();
            *share = decision.share;
            because.clear();
            // Writing to a String does not fail.
            let _ = write!(because, "{}", decision.rule);
            if same {
                continue;
            }
            if self.decisions.len() == KEPT {
                self.decisions.pop_front();
            }
            self.decisions.push_back(snapshot::decision(decision, because.clone(), world));
        }
        self.fresh = fresh;
        self.fresh.clear();
    }
}

impl Observer<LiveWorld> for History {
    fn migrated(&mut self, _: &LiveWorld, engine: &Engine, _: &[MoveOutcome]) {
        self.fresh.extend_from_slice(engine.decisions());
    }
}

impl Daemon {
    /// Makes everything ready: topology, settings of the kernel, a way of looking, the engine.
    ///
    /// # Errors
    /// The configuration does not fit this machine, or the kernel refuses; nothing is changed then
    /// that is not given back.
    pub fn new(start: Options, channels: Channels) -> anyhow::Result<Self> {
        let host = Host::discover(&start.roots, start.config.tier_override().as_ref())?;
        let mut history = History::default();
        host.doubts().into_iter().for_each(|doubt| history.notice(0.0, doubt));
        let mut mode = setup::mode(&start, &host);
        let mut settings = setup::open_settings(&start, mode.0, &mut history)?;
        let mut world = setup::world(&start, host, &channels);
        let monitoring = match setup::start_monitoring(&start, &mut world) {
            Ok(why) => why,
            Err(e) => {
                mode = monitoring::blind(mode);
                format!("nothing: {e:#}")
            }
        };
        history.notice(0.0, format!("monitors accesses with {monitoring}"));
        if mode.0 == Mode::Manage {
            setup::take_over(&start, &mut settings)?;
            // After the settings: page cache may be demoted only with one of them.
            for line in judgement::cannot_move(&start.config, &start.roots, true) {
                history.notice(0.0, line);
            }
        }
        if !mode.1.is_empty() {
            history.notice(0.0, format!("{}: {}", monitoring::verb(mode.0), mode.1));
        }
        world.set_dry_run(mode.0 != Mode::Manage);
        world.set_tenants(setup::selectors(&start.config)?, true);
        let engine = setup::engine(&start.config, &world, mode.0)?;
        let peers = peers::Peers::start();
        let mut latency = latency::Readers::new(&start.config, &channels.waker);
        latency.follow(&peers, &start.config);
        Ok(Self {
            started: Instant::now(),
            monitor_tried: Instant::now(),
            engine,
            driver: Driver::default(),
            settings,
            history,
            mode: mode.0,
            mode_reason: mode.1,
            monitoring,
            paused: false,
            latency,
            latencies: latency::known::Known::default(),
            guests: guests::Guests::new(),
            peers,
            reader: Reader::default(),
            pressure: Vec::new(),
            rounds: 0,
            cache_demoted_at: Instant::now(),
            page_cache_refused: false,
            cache_promotion: cache_promotion::CachePromotion::new(),
            world,
            start,
            channels,
        })
    }

    /// Runs until it is told to stop, whatever happens on the machine meanwhile, and gives back
    /// what was taken.
    pub fn run(mut self) {
        let Ok(()) = self.driver.start(&self.engine, &mut self.world);
        self.publish();
        while !self.channels.stop.load(Ordering::Relaxed) {
            self.round();
            self.answer_all();
            self.retry_monitoring();
            if self.cache_demoted_at.elapsed() >= DEMOTE_INTERVAL {
                self.cache_demoted_at = Instant::now();
                self.demote_page_cache();
            }
            self.promote_page_cache();
            let old = self.channels.views.borrow().is_old();
            if old && self.channels.views.receiver_count() > UNREAD {
                self.publish();
            }
        }
        self.end();
    }

    fn round(&mut self) {
        let observes = self.paused || self.mode == Mode::Observe;
        self.driver.set_mode(if observes { driver::Mode::Observe } else { driver::Mode::Manage });
        let Ok(_) = self.driver.round_with(&mut self.engine, &mut self.world, &mut self.history);
        self.history.take_fresh(&self.world);
        self.rounds += 1;
        let at = self.uptime();
        if self.rounds == 1 {
            for line in events::waiting(&self.world) {
                self.history.notice(at, line);
            }
        }
        for events in self.world.take_events() {
            if let Event::MonitoringLost(problem) = &events {
                self.on_monitoring_failed(problem);
            }
            if let Event::Tenants(changes) = &events {
                self.guests.ask(&changes.started, &self.start.config, &self.peers);
            }
            for text in events::words(&events, &self.world, &self.start.config) {
                self.history.notice(at, text);
            }
        }
        for text in self.guests.answers() {
            self.history.notice(at, text);
        }
        self.hear_latencies(at);
    }

    /// Takes in what was read of tenants' latency, and what reading it cost.
    fn hear_latencies(&mut self, at: f64) {
        self.world.polling(self.peers.cpu());
        for (tenant, outcome) in self.latency.take() {
            if let Some(reading) = self.latencies.read(&tenant, outcome, at) {
                let reply =
                    self.heard(&tenant, reading.p99.as_secs_f64() * 1e3, reading.operations);
                // A tenant that was removed meanwhile.
                drop(reply);
            }
        }
    }

    fn answer_all(&mut self) {
        while let Ok(Request { command, reply }) = self.channels.requests.try_recv() {
            // A client that went away needs no answer.
            let _ = reply.send(self.answer(command));
        }
    }

    fn uptime(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    fn publish(&mut self) {
        let snapshot = self.snapshot();
        self.channels.views.send_replace(Arc::new(snapshot));
    }

    fn end(&mut self) {
        for stopped in [self.cache_promotion.stop(), self.world.stop()] {
            if let Err(e) = stopped {
                tracing::warn!("{e}");
            }
        }
        match self.settings.restore() {
            Ok(report) => report.to_string().lines().for_each(|line| tracing::info!("{line}")),
            Err(e) => tracing::error!("{e}; `tierwise restore` tries again"),
        }
    }
}
