//! Steering: while no tenant has a cap, and no floor and no SLO binds (`super::slack`), the kernel
//! promotes and demotes pages by itself, and the daemon sets how much a page must be used to be
//! promoted (`tierwise_core::steer`). It then monitors nothing and moves nothing itself.

use std::ops::Range;
use std::time::{Duration, Instant};

use tierwise_core::steer::{Course, IdlePages, KernelReading, Steering, SteeringCosts};
use tierwise_core::units::{Bytes, Pages, TenantId, Timestamp};
use tierwise_linux::error::LinuxError;
use tierwise_linux::kernel_tiering::{self, AgeingWalk, IdleOf, SteeringLimits, VmstatCounters};
use tierwise_linux::migrate::page_cache::groups::Groups;
use tierwise_linux::monitor::thread_cpu;
use tierwise_linux::process::Reader;
use tierwise_linux::roots::Roots;
use tierwise_linux::settings::Settings;
use tierwise_linux::topology::LinuxHost;
use tierwise_linux::world::{LiveWorld, MAX_WAIT};

use super::Daemon;
use super::refusal::Refusal;
use super::slack::{Slack, held_floor};
use super::unmanaged::managed;
use crate::config::{Config, TenantConfig};
use crate::judgement;
use crate::view::{DaemonMode, SteeringView};

/// The least time between two readings without a scan, and between two lists of generations.
const INTERVAL: Duration = Duration::from_secs(1);

/// The longest time between two readings, so that the counters in the status and in the metrics
/// are of the same minute.
const MAX_INTERVAL: Duration = Duration::from_secs(10);

/// Time between two readings while the kernel scans: a scan ends as soon as all slow pages were
/// poisoned, and scans again after this time.
const SCAN_INTERVAL: Duration = Duration::from_millis(100);

/// The part by which a time must change before the daemon sets it: each change is written to the
/// state file first.
const WORTH_A_CHANGE: f64 = 0.2;

/// The factor from which on the shorter of two walks of the page tables has ended early. Those of
/// one count differed by up to half; early ones took a twentieth.
const WALKS_DIFFER: u32 = 4;

/// The longest time between two ageings: a workload that changes is found within a minute.
const MAX_AGE: Duration = Duration::from_secs(60);

/// The access monitoring source while the daemon steers.
pub(super) const FOUND_BY_KERNEL: &str = "nothing: the kernel finds the pages to promote";

/// The fastest tier, and all others.
const FASTEST: Range<usize> = 0..1;
const SLOWER: Range<usize> = 1..usize::MAX;

/// The reasons for steering, without and with floors and SLOs.
const UNBOUND: &str = "no tenant has a floor, a cap or an SLO";
const IN_SLACK: &str =
    "no tenant has a cap, each holds its floor, and each P99 is at most half of its SLO";

/// The reason for not steering that the configuration gives.
const BOUND: &str = "the configuration or a command wants the daemon's own decisions";

/// The state of the feature.
#[derive(Debug, Default)]
pub(super) struct SteeringState {
    /// `None` before the daemon steers, and while access monitoring ends for it.
    active: Option<Steered>,
    pub(super) refusal: Refusal,
    pub(super) slack: Slack,
}

/// The state of steering that has started.
#[derive(Debug)]
struct Steered {
    law: Steering,
    costs: SteeringCosts,
    limits: SteeringLimits,
    /// Set in the kernel.
    course: Course,
    first: VmstatCounters,
    last: VmstatCounters,
    /// By the last reading.
    victims: Pages,
    /// By the last list of generations.
    fast: Vec<IdlePages>,
    read_at: Instant,
    /// The last reading of the CPUs' lists of free pages.
    lists_at: Instant,
    list_at: Instant,
    age_at: Instant,
    /// The first of two generations, if it was made.
    aged: Option<FirstWalk>,
    /// The walk of the tenants' page tables that made the last generation.
    walk: Duration,
    started: Instant,
    reader: Reader,
    /// The counters cannot be read, and the log has it.
    failed: bool,
}

/// The walk of the page tables that made the first of two generations.
#[derive(Debug, Clone, Copy)]
struct FirstWalk {
    /// CPU time of the tenants' page tables: other walks would hide one that ended early.
    took: Duration,
    /// CPU time that the count owes: none for a generation that ended the count before.
    owed: Duration,
    /// The count was begun once more.
    is_second: bool,
}

/// Whose idle pages make room.
#[derive(Debug)]
struct Whose {
    /// Those of no tenant.
    others: bool,
    /// What tenants hold above these floors.
    floors: Vec<Pages>,
}

impl Whose {
    fn of(config: &Config, world: &LiveWorld) -> Self {
        let page_size = world.host().page_size;
        let floor = |(i, tenant): (usize, &TenantConfig)| {
            held_floor(tenant, world.usage(TenantId(i as u16)), page_size).unwrap_or_default()
        };
        let others = config.moving.unmanaged_idle_s > 0;
        Self { others, floors: config.tenants.iter().enumerate().map(floor).collect() }
    }

    fn on<'a>(&'a self, roots: &'a Roots, tenants: &'a Groups, nodes: &'a [u32]) -> IdleOf<'a> {
        IdleOf { roots, tenants, nodes, others: self.others, floors: &self.floors }
    }
}

/// Returns when a cost is paid for, if that may take this part of the time. What was spent before
/// it was due is paid for, too.
fn paid_for(due: Instant, cost: Duration, part: f64, now: Instant) -> Instant {
    (due.max(now) + cost.div_f64(part)).clamp(now + INTERVAL, now + MAX_AGE)
}

/// Returns what has to be paid for before the next count: this one, and the next if this is the
/// first, which nothing had paid for. A program of nine seconds pays for one count then, instead of
/// two.
fn owed(cost: Duration, is_first: bool) -> Duration {
    if is_first { 2 * cost } else { cost }
}

impl Steered {
    /// Time between two readings while the tenants have so many slow pages. Nothing follows from
    /// one in a pause before the idle pages are counted, and they are counted for slow pages only.
    fn interval(&self, slow: Pages) -> Duration {
        if self.aged.is_some() {
            return self.law.age_gap();
        }
        if self.course.scans || self.law.wants_count() {
            return self.law.scan_rests().clamp(SCAN_INTERVAL, INTERVAL);
        }
        if !Steering::may_promote(slow) {
            return MAX_INTERVAL;
        }
        self.age_at.saturating_duration_since(self.read_at).clamp(INTERVAL, MAX_INTERVAL)
    }

    /// Time to the next reading. What wakes the daemon meanwhile does not delay it: a generation
    /// that is late shows fewer idle pages.
    fn until_due(&self, world: &LiveWorld) -> Duration {
        self.interval(held_in(world, SLOWER)).saturating_sub(self.read_at.elapsed())
    }

    fn reading(
        &mut self,
        roots: &Roots,
        world: &mut LiveWorld,
        whose: &Whose,
    ) -> tierwise_linux::error::Result<(KernelReading, bool)> {
        let before = thread_cpu();
        let is_fresh = self.find_idle_pages(roots, world, whose)?;
        let counting = thread_cpu().saturating_sub(before);
        if is_fresh || self.course.scans && self.lists_at.elapsed() >= INTERVAL {
            self.lists_at = Instant::now();
            world.read_lists();
        }
        // Idle pages that were demoted just now are free ones.
        world.read_free();
        self.last = VmstatCounters::read(roots)?;
        let fastest = |pages: &[Pages]| pages.first().copied().unwrap_or_default();
        let (free, unlisted) = (fastest(world.free()), fastest(world.unlisted()));
        let tiers = world.host().topology().tiers;
        let (high, promo) = tiers
            .first()
            .map_or((Pages(0), Pages(0)), |tier| (tier.watermarks.high, tier.watermarks.promo));
        let kept = fastest(world.withheld()).max(high);
        let reading = KernelReading {
            promoted: self.last.promoted,
            candidates: self.last.candidates,
            demoted: self.last.demoted,
            faults: self.last.hint_faults,
            poisoned: self.last.poisoned,
            free: free.saturating_sub(kept),
            available: unlisted.saturating_sub(kept),
            restored: promo.saturating_sub(high),
            held: held_in(world, FASTEST),
            slow: held_in(world, SLOWER),
            fast: self.fast.clone(),
            counting,
        };
        Ok((reading, is_fresh))
    }

    /// Counts the idle pages in two readings, and reads the generations, each when it is due.
    /// Returns true if idle pages were counted.
    fn find_idle_pages(
        &mut self,
        roots: &Roots,
        world: &LiveWorld,
        whose: &Whose,
    ) -> tierwise_linux::error::Result<bool> {
        let nodes = world.host().tiers.first().map_or(&[][..], |tier| &tier.nodes);
        // The list of all generations, whose length other users decide, may take as much.
        let part = self.law.counting() * self.costs.cpus;
        let now = Instant::now();
        let after = |due: Instant, cost: Duration| paid_for(due, cost, part, now);
        let matters = Steering::may_promote(held_in(world, SLOWER)) || self.aged.is_some();
        let is_due = matters && self.age_at <= Instant::now() && !self.course.scans;
        let counts = is_due || self.law.wants_count();
        let lists = counts || self.list_at <= Instant::now();
        if !lists {
            return Ok(false);
        }
        let tenants = managed(roots, world.tracker());
        let of = whose.on(roots, &tenants, nodes);
        if counts {
            let AgeingWalk { all, own: took } = kernel_tiering::age(&of, &mut self.reader)?;
            let Some(first) = self.aged.take() else {
                self.aged = Some(FirstWalk { took, owed: all, is_second: false });
                return Ok(false);
            };
            let cost = first.owed + all;
            if !is_whole(first.took, took) && !first.is_second {
                self.aged = Some(FirstWalk { took, owed: cost, is_second: true });
                return Ok(false);
            }
            tracing::debug!(first = ?first.took, second = ?took, "walked the page tables");
            let owed = owed(cost, self.walk.is_zero());
            self.walk = took;
            // The series pays for the counts within it.
            let due = if self.law.is_in_series() { now } else { self.age_at };
            self.age_at = after(due, owed);
        }
        let before = thread_cpu();
        let read = kernel_tiering::idle_pages(&of, &mut self.reader);
        self.list_at = after(self.list_at, thread_cpu().saturating_sub(before));
        self.fast = read?;
        Ok(counts)
    }

    /// Demotes as many idle pages as a scan needs: of no tenant first, and then of the tenants.
    /// Returns the pages of no tenant that were ordered.
    fn make_room(
        &mut self,
        roots: &Roots,
        settings: &mut Settings,
        world: &mut LiveWorld,
        whose: &Whose,
    ) -> tierwise_linux::error::Result<Pages> {
        let room = self.law.room();
        if room == Pages(0) {
            return Ok(Pages(0));
        }
        kernel_tiering::demote(settings)?;
        let before = thread_cpu();
        let nodes = world.host().tiers.first().map_or(&[][..], |tier| &tier.nodes);
        let tenants = managed(roots, world.tracker());
        let of = whose.on(roots, &tenants, nodes);
        let made = kernel_tiering::make_room(&of, room, &mut self.reader);
        let took = thread_cpu().saturating_sub(before);
        world.moving(took);
        let of_others = made?;
        let demoted = VmstatCounters::read(roots)?.demoted.saturating_sub(self.last.demoted);
        self.law.note_copies(Pages(demoted), took);
        tracing::debug!(demoted, ?of_others, ?took, "made room");
        Ok(of_others)
    }
}

impl Daemon {
    /// Starts or stops steering, as the configuration and the tenants' slack want it. A kernel
    /// that cannot be steered is reported once; the daemon then decides itself, and tries again
    /// later.
    fn follow_limits(&mut self) {
        let steers = self.activity.mode == DaemonMode::Steer;
        if !steers && self.activity.mode != DaemonMode::Manage {
            return;
        }
        // Monitoring could not start again yet, and a limit that binds is to count once.
        if steers && self.world.is_releasing() {
            return;
        }
        let config = &self.options.config;
        let may = !self.activity.paused && judgement::is_unbound(config);
        let bound = if may {
            let usage = |i: usize| self.world.usage(TenantId(i as u16));
            let page_size = self.world.host().page_size;
            self.steering.slack.binding(config, usage, page_size, steers, Instant::now())
        } else {
            Some(BOUND.to_owned())
        };
        let is_moving = !steers && self.world.is_moving();
        let waits = self.steering.slack.waits_for_moves(bound.is_some(), is_moving, Instant::now());
        match bound {
            Some(reason) if steers => self.stop_steering(&reason),
            None if steers && self.steering.active.is_none() => self.take_kernel(),
            None if !steers && !waits && !self.steering.refusal.holds() => self.start_steering(),
            _ => {}
        }
    }

    /// Lets access monitoring end, which can take seconds, and then takes the kernel's settings: a
    /// source of accesses may hold some of them until it ends.
    fn start_steering(&mut self) {
        if let Err(e) = kernel_tiering::probe(&self.options.roots) {
            return self.refuse_steering(&e);
        }
        self.world.release_monitoring();
        self.world.set_survey(false);
        self.activity.mode = DaemonMode::Steer;
        self.activity.source = FOUND_BY_KERNEL.into();
        let has_limits = judgement::has_limits(&self.options.config);
        self.activity.reason = if has_limits { IN_SLACK } else { UNBOUND }.into();
        if !self.world.is_releasing() {
            self.take_kernel();
        }
    }

    fn take_kernel(&mut self) {
        match self.steer_kernel() {
            Ok(steered) => {
                self.steering.active = Some(steered);
                self.steering.refusal.end();
                let reason = &self.activity.reason;
                let line =
                    format!("steers the kernel's tiering, for all processes alike: {reason}");
                self.history.notice(self.uptime(), line);
            }
            Err(e) => {
                self.world.set_survey(true);
                self.refuse_steering(&e);
            }
        }
    }

    fn refuse_steering(&mut self, problem: &LinuxError) {
        self.world.set_max_wait(MAX_WAIT);
        if self.steering.refusal.is_news() {
            let line =
                format!("moves pages itself, because the kernel cannot be steered: {problem}");
            self.history.notice(self.uptime(), line);
        }
        if !self.world.is_monitoring() {
            self.manage_again();
        }
    }

    fn stop_steering(&mut self, reason: &str) {
        self.restore_kernel();
        self.steering.active = None;
        self.world.set_survey(true);
        self.world.set_max_wait(MAX_WAIT);
        let at = self.uptime();
        self.history.notice(at, format!("stops steering the kernel's tiering: {reason}"));
        self.manage_again();
    }

    fn restore_kernel(&mut self) {
        match kernel_tiering::stop(&mut self.settings) {
            Ok(report) => report.to_string().lines().for_each(|line| tracing::info!("{line}")),
            Err(e) => {
                let line = format!("steering's settings stay: {e}; `tierwise restore` tries again");
                self.history.notice(self.uptime(), line);
            }
        }
    }

    fn manage_again(&mut self) {
        // Not steering, whatever becomes of monitoring.
        self.activity.mode = DaemonMode::Manage;
        match self.restart_monitoring(judgement::source_at_start) {
            Ok(()) => {
                let line = format!("monitors accesses with {}", self.activity.source);
                self.history.notice(self.uptime(), line);
            }
            Err(e) => self.on_monitoring_failed(&format!("{e:#}")),
        }
    }

    fn steer_kernel(&mut self) -> tierwise_linux::error::Result<Steered> {
        let roots = &self.options.roots;
        let host = self.world.host();
        let costs = costs(host)?;
        let law = Steering::new(costs);
        let course = law.course();
        let limits = SteeringLimits {
            most: self.options.config.moving.rate.bytes(),
            balances: host.has_several_cpu_nodes(),
            free: free(&self.world),
        };
        let first = VmstatCounters::read(roots)?;
        let set = kernel_tiering::follow(&mut self.settings, roots, &course, &limits);
        if let Err(e) = set {
            self.restore_kernel();
            return Err(e);
        }
        let now = Instant::now();
        Ok(Steered {
            law,
            costs,
            limits,
            course,
            first,
            last: first,
            victims: Pages(0),
            // The first reading is due at once.
            read_at: now.checked_sub(INTERVAL).unwrap_or(now),
            fast: Vec::new(),
            lists_at: now,
            list_at: now,
            age_at: now,
            aged: None,
            walk: Duration::ZERO,
            started: now,
            reader: Reader::default(),
            failed: false,
        })
    }

    /// Reads the kernel's counters once per interval, and sets the course that follows from them.
    pub(super) fn steer(&mut self) {
        self.follow_limits();
        let Some(steered) = &mut self.steering.active else {
            if self.activity.mode == DaemonMode::Steer {
                // Access monitoring ends within milliseconds, and the tenants' programs run.
                self.world.set_max_wait(SCAN_INTERVAL);
            }
            return;
        };
        let until_due = steered.until_due(&self.world);
        self.world.set_max_wait(until_due);
        if until_due > Duration::ZERO {
            return;
        }
        steered.read_at = Instant::now();
        let roots = &self.options.roots;
        steered.limits.most = self.options.config.moving.rate.bytes();
        steered.limits.free = free(&self.world);
        let whose = Whose::of(&self.options.config, &self.world);
        let mut of_others = Pages(0);
        let read =
            steered.reading(roots, &mut self.world, &whose).and_then(|(reading, is_fresh)| {
                let now = Timestamp::ZERO + steered.started.elapsed();
                let before = thread_cpu();
                let course = steered.law.update(now, &reading, is_fresh);
                self.world.deciding(thread_cpu().saturating_sub(before));
                if is_fresh && steered.law.wants_count() {
                    // The count's second generation is the first of the next one.
                    let took = steered.walk;
                    let owed = Duration::ZERO;
                    steered.aged = Some(FirstWalk { took, owed, is_second: false });
                }
                steered.victims = steered.law.victims().pages;
                if let Some(wait) = steered.law.recount(now) {
                    steered.age_at = steered.age_at.min(steered.read_at + wait);
                }
                let judgement = steered.law.judgement();
                tracing::debug!(?reading, ?course, ?judgement, "steering");
                let (settings, world) = (&mut self.settings, &mut self.world);
                of_others = steered.make_room(roots, settings, world, &whose)?;
                if is_worth_telling(&steered.course, &course) {
                    kernel_tiering::follow(&mut self.settings, roots, &course, &steered.limits)?;
                    steered.course = course;
                }
                Ok(())
            });
        self.world.set_max_wait(steered.until_due(&self.world));
        match read {
            Ok(()) => steered.failed = false,
            Err(e) if !steered.failed => {
                steered.failed = true;
                let line = format!("steers by what it last could read and set: {e}");
                self.history.notice(self.started.elapsed().as_secs_f64(), line);
            }
            Err(_) => {}
        }
        self.count_room(of_others.in_bytes(self.world.host().page_size));
    }

    pub(super) fn is_steering(&self) -> bool {
        self.steering.active.is_some()
    }

    /// Steering for the view.
    pub(super) fn steering_view(&self) -> Option<SteeringView> {
        let Steered { law, course, first, last, victims, .. } = self.steering.active.as_ref()?;
        Some(SteeringView {
            scans: course.scans,
            hot_threshold_ms: course.threshold.as_millis() as u64,
            victim_pages: victims.0,
            copy_ns: law.costs().copy.as_nanos() as u64,
            promoted_pages: last.promoted.saturating_sub(first.promoted),
            demoted_pages: last.demoted.saturating_sub(first.demoted),
            hint_faults: last.hint_faults.saturating_sub(first.hint_faults),
        })
    }
}

/// Returns true if two walks of the same page tables took about as long. kswapd walks them, too,
/// and all walks of a control group share one list of processes (`iterate_mm_list`). While
/// kswapd's is not done, another ends at once, and pages that it has not seen pass for used
/// later: of 6,000 idle pages of Redis 1,300 were found after a walk of 0.3 ms, not 6.
fn is_whole(first: Duration, second: Duration) -> bool {
    first.min(second) * WALKS_DIFFER >= first.max(second)
}

/// What the tenants hold in these tiers.
fn held_in(world: &LiveWorld, tiers: Range<usize>) -> Pages {
    let usage = |i: usize| world.usage(TenantId(i as u16)).iter();
    (0..world.tracker().len())
        .flat_map(|i| usage(i).skip(tiers.start).take(tiers.len()).copied())
        .sum()
}

/// Free memory of the fastest tier.
fn free(world: &LiveWorld) -> Bytes {
    world.free().first().copied().unwrap_or_default().in_bytes(world.host().page_size)
}

fn is_worth_telling(old: &Course, new: &Course) -> bool {
    let differs = |old: Duration, new: Duration| {
        let (old, new) = (old.as_secs_f64(), new.as_secs_f64());
        (new - old).abs() > WORTH_A_CHANGE * old
    };
    old.scans != new.scans
        || new.scans && (differs(old.threshold, new.threshold) || old.rate != new.rate)
}

/// The costs on this machine; those of a copy and of a fault are measured.
fn costs(host: &LinuxHost) -> tierwise_linux::error::Result<SteeringCosts> {
    let cpus = std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64);
    let [fast, .., slow] = &host.tiers[..] else {
        let none = Duration::ZERO;
        return Ok(SteeringCosts { saved: none, copy: none, fault: none, cpus });
    };
    let latency = |tier: &tierwise_linux::topology::HostTier| tier.figures.load_latency.value;
    let node = |tier: &tierwise_linux::topology::HostTier| tier.nodes.first().copied();
    let saved = latency(slow).saturating_sub(latency(fast));
    let (from, to) = (node(fast).unwrap_or_default(), node(slow).unwrap_or_default());
    let (copy, fault) = (kernel_tiering::copy_cost(from, to)?, kernel_tiering::fault_cost());
    Ok(SteeringCosts { saved, copy, fault, cpus })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_take_their_part_of_time() {
        let (start, cost, part) = (Instant::now(), Duration::from_millis(20), 0.004);
        let (mut due, mut counts) = (start, 0_u32);
        while due < start + MAX_AGE {
            // A count is made when it is due.
            let now = due;
            counts += 1;
            due = paid_for(due, owed(cost, counts == 1), part, now);
            let share = (cost * counts).as_secs_f64() / (due - start).as_secs_f64();
            assert!(share <= part, "{counts} counts take {share} of the time");
        }
        assert_eq!(counts, 11);
    }

    #[test]
    fn walks_that_end_early_are_found() {
        let whole =
            |first, second| is_whole(Duration::from_micros(first), Duration::from_micros(second));
        assert!(whole(5630, 5650) && whole(5800, 9000) && whole(0, 0));
        assert!(!whole(292, 5600) && !whole(5600, 292));
    }
}
