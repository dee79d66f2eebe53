//! The daemon's main thread: it runs the driver's rounds and answers commands between them.
//!
//! - [`setup`]: from the configuration to a world and an engine.
//! - `activity`: the mode, its reason, and the source of access monitoring.
//! - [`monitoring`]: the loss of access monitoring, and the attempts to start it again.
//! - [`commands`]: the change that each command makes.
//! - `history`: decisions and notices for the view.
//! - [`snapshot`]: the view, made once a second while a client reads it.
//! - [`events`]: the world's events as lines of text.
//! - `exchange`: what processes of tenants report, and may read.
//! - `endpoints`: tenants' services and virtual machines. [`latency`] reads the latency of the
//!   services, `guests` asks QEMU about the virtual machines, `peers` is the thread that does both.
//! - `pods`: pods of Kubernetes as tenants.
//! - `pressure`: tenants' memory pressure.
//! - [`page_cache`]: page cache that the kernel demotes on request; [`cache_promotion`]: page cache
//!   that it promotes.
//! - `steering`: regulation of the kernel's own tiering, while no tenant's limit binds; `slack`:
//!   whether a floor or an SLO does.
//! - `unmanaged`: demotion of idle memory of no tenant.
//! - `warm_start`: what was hot before a restart.
//! - `pace`: how often work is done whose cost other users raise; `refusal`: when a feature that
//!   the kernel refused is tried again.

mod activity;
pub mod cache_promotion;
pub mod commands;
mod endpoints;
pub mod events;
mod exchange;
mod gain;
mod guests;
mod history;
pub mod latency;
pub mod monitoring;
mod pace;
pub mod page_cache;
mod peers;
mod pods;
mod pressure;
mod refusal;
pub mod setup;
mod slack;
pub mod snapshot;
mod steering;
#[cfg(test)]
mod tests;
mod unmanaged;
mod warm_start;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use tierwise_core::engine::Engine;
use tierwise_driver::Driver;
use tierwise_linux::monitor::thread_cpu;
use tierwise_linux::roots::Roots;
use tierwise_linux::settings::Settings;
use tierwise_linux::topology::LinuxHost;
use tierwise_linux::world::{LiveWorld, MAX_WAIT, WorldEvent};
use tokio::sync::watch;

use self::activity::Activity;
use self::endpoints::Endpoints;
use self::exchange::Exchange;
use self::history::History;
use self::page_cache::PageCache;
use self::pods::PodFollower;
use self::pressure::TenantPressure;
use self::steering::SteeringState;
use self::unmanaged::Unmanaged;
use self::warm_start::WarmStart;
use crate::config::Config;
use crate::control::ControlRequest;
use crate::judgement;
use crate::pods::SharedPods;
use crate::system::answering;
use crate::system::optional::Unavailable;
use crate::tenants::TenantBoard;
use crate::view::{DaemonMode, Snapshot};

/// Receivers of the view while no client reads it: only the server's own.
const UNREAD: usize = 1;

/// The options of a daemon.
pub struct Options {
    /// The configuration.
    pub config: Config,
    /// The file of the configuration, for a reload.
    pub file: Option<PathBuf>,
    /// The kernel's file systems.
    pub roots: Roots,
    /// True if the command line asks for a dry run. The command line overrides the file.
    pub dry_run: bool,
}

/// The channels between the daemon's thread and the others.
pub struct DaemonChannels {
    /// Commands.
    pub requests: Receiver<ControlRequest>,
    /// A message ends a wait.
    pub wake: Receiver<()>,
    /// The other end of `wake`.
    pub waker: Sender<()>,
    /// Set to end the daemon.
    pub stop: Arc<AtomicBool>,
    /// The view.
    pub views: watch::Sender<Arc<Snapshot>>,
    /// The features that could not start.
    pub unavailable: Unavailable,
    /// The pods that run here.
    pub pods: SharedPods,
    /// What processes of tenants report, and read.
    pub tenants: TenantBoard,
}

/// The daemon.
pub struct Daemon {
    options: Options,
    channels: DaemonChannels,
    started: Instant,
    world: LiveWorld,
    engine: Engine,
    driver: Driver,
    settings: Settings,
    activity: Activity,
    history: History,
    endpoints: Endpoints,
    pods: PodFollower,
    pressure: TenantPressure,
    page_cache: PageCache,
    unmanaged: Unmanaged,
    steering: SteeringState,
    warm_start: WarmStart,
    exchange: Exchange,
    rounds: u64,
}

impl Daemon {
    /// Discovers the topology, takes over the kernel's settings, starts access monitoring and makes
    /// the engine.
    ///
    /// # Errors
    /// The configuration does not fit this machine, or the kernel refuses. Settings that were
    /// changed until then are restored.
    pub fn new(options: Options, channels: DaemonChannels) -> anyhow::Result<Self> {
        let host = LinuxHost::discover(&options.roots, options.config.tier_override().as_ref())?;
        let mut history = History::default();
        host.doubts().into_iter().for_each(|doubt| history.notice(0.0, doubt));
        let mut mode = setup::mode(&options, &host);
        let mut settings = setup::open_settings(&options, mode.0, &mut history)?;
        let mut world = setup::world(&options, host, &channels);
        world.answering(answering::cpu);
        // The kernel's tiering needs no access monitoring.
        let steers =
            mode.0 == DaemonMode::Manage && judgement::steers(&options.config, &options.roots);
        let source = judgement::source_at_start;
        let started = (!steers).then(|| setup::start_monitoring(source, &options, &mut world));
        let monitoring = match started {
            None => steering::FOUND_BY_KERNEL.into(),
            Some(Ok(why)) => why,
            Some(Err(e)) => {
                mode = activity::observing(mode);
                format!("nothing: {e:#}")
            }
        };
        history.notice(0.0, format!("monitors accesses with {monitoring}"));
        if mode.0 == DaemonMode::Manage {
            setup::take_over(&options, &mut settings)?;
            // After the settings: page cache may be demoted only with one of them.
            for line in judgement::cannot_move(&options.config, &options.roots, true) {
                history.notice(0.0, line);
            }
        }
        if !mode.1.is_empty() {
            history.notice(0.0, format!("{}: {}", activity::verb(mode.0), mode.1));
        }
        world.set_dry_run(mode.0 != DaemonMode::Manage);
        // Steering starts after the first round, which would survey all blocks in vain.
        world.set_survey(!steers);
        world.set_tenants(setup::selectors(&options.config)?, true);
        setup::set_services(&options.config, &mut world);
        let warm_start = WarmStart::start(&options, &mut world, &mut history);
        let decides = if steers { DaemonMode::Steer } else { mode.0 };
        let engine = setup::engine(&options.config, &world, decides)?;
        let endpoints = Endpoints::start(&options.config, &channels.waker);
        Ok(Self {
            started: Instant::now(),
            engine,
            driver: Driver::default(),
            settings,
            activity: Activity::new(mode, monitoring),
            history,
            endpoints,
            pods: PodFollower::default(),
            pressure: TenantPressure::default(),
            page_cache: PageCache::new(),
            unmanaged: Unmanaged::new(),
            steering: SteeringState::default(),
            warm_start,
            exchange: Exchange::default(),
            rounds: 0,
            world,
            options,
            channels,
        })
    }

    /// Runs until `stop` is set, through any failure of the machine, and restores the settings
    /// that were taken over.
    pub fn run(mut self) {
        let Ok(()) = self.driver.start(&self.engine, &mut self.world);
        // The first round finds the tenants, which steering needs.
        self.world.set_max_wait(Duration::ZERO);
        self.round();
        self.world.set_max_wait(MAX_WAIT);
        self.publish();
        while !self.channels.stop.load(Ordering::Relaxed) {
            self.steer();
            self.round();
            self.answer_all();
            self.follow_pods();
            self.retry_monitoring();
            self.demote_page_cache();
            self.promote_page_cache();
            self.make_room();
            self.remember();
            self.exchange();
            let old = self.channels.views.borrow().is_old();
            if old && self.channels.views.receiver_count() > UNREAD {
                self.publish();
            }
        }
        self.end();
    }

    fn round(&mut self) {
        self.driver.set_mode(self.activity.driver_mode());
        let before = thread_cpu();
        let Ok(_) = self.driver.round_with(&mut self.engine, &mut self.world, &mut self.history);
        self.history.record_decisions(&self.world);
        self.world.end_round(thread_cpu().saturating_sub(before));
        self.rounds += 1;
        let at = self.uptime();
        if self.rounds == 1 {
            for line in events::waiting(&self.world) {
                self.history.notice(at, line);
            }
        }
        for event in self.world.take_events() {
            if let WorldEvent::MonitoringLost(problem) = &event {
                self.on_monitoring_failed(problem);
            }
            if let WorldEvent::Tenants(changes) = &event {
                self.endpoints.guests.ask(
                    &changes.started,
                    &self.options.config,
                    &self.endpoints.peers,
                );
            }
            for text in events::words(&event, &self.world, &self.options.config) {
                self.history.notice(at, text);
            }
        }
        for text in self.endpoints.guests.answers() {
            self.history.notice(at, text);
        }
        self.take_latencies(at);
    }

    /// Takes the latencies that were read, and the CPU time that reading them cost.
    fn take_latencies(&mut self, at: f64) {
        self.world.polling(self.endpoints.peers.cpu());
        for (tenant, outcome) in self.endpoints.readers.take() {
            if let Some(reading) = self.endpoints.known.read(&tenant, outcome, at) {
                let reply = self.report_latency(
                    &tenant,
                    reading.p99.as_secs_f64() * 1e3,
                    reading.operations,
                );
                // It fails only for a tenant that was removed meanwhile.
                drop(reply);
            }
        }
    }

    fn answer_all(&mut self) {
        while let Ok(ControlRequest { command, reply }) = self.channels.requests.try_recv() {
            // A client that disconnected needs no answer.
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
        self.remember_now();
        for stopped in [self.page_cache.promotion.stop(), self.world.stop()] {
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
