//! Steering: while no tenant has a floor, a cap or an SLO, the kernel promotes and demotes pages by
//! itself, and the daemon sets how much a page must be used to be promoted
//! (`tierwise_core::steer`). It then monitors nothing and moves nothing itself.

use std::time::{Duration, Instant};

use tierwise_core::steer::{Costs, Course, Reading, Steering};
use tierwise_core::units::Timestamp;
use tierwise_linux::kernel_tiering::{self, Counters, Demotable};
use tierwise_linux::process::Reader;
use tierwise_linux::topology::Host;

use super::Daemon;
use crate::judgement;
use crate::view::{Mode, SteeringView};

/// Time between two readings: the interval of the control law.
const INTERVAL: Duration = Duration::from_secs(1);

/// The part by which a time must change before the daemon sets it: each change is recorded on disk
/// first.
const WORTH_A_CHANGE: f64 = 0.2;

/// The access monitoring source while the daemon steers.
pub(super) const FOUND_BY_KERNEL: &str = "nothing: the kernel finds the pages to promote";

/// The reason for steering.
const UNBOUND: &str = "no tenant has a floor, a cap or an SLO";

/// The state of the feature.
#[derive(Debug, Default)]
pub(super) struct SteeringState {
    active: Option<Steered>,
    /// True if the kernel cannot be steered and the log has the reason.
    pub(super) refused: bool,
}

/// The state of steering that has started.
#[derive(Debug)]
struct Steered {
    law: Steering,
    costs: Costs,
    /// The course set in the kernel.
    course: Course,
    first: Counters,
    last: Counters,
    read_at: Instant,
    started: Instant,
    reader: Reader,
    /// True if the counters cannot be read and the log has the reason.
    failed: bool,
}

impl Daemon {
    /// Starts or stops steering by the configuration. Reports once that a kernel cannot be steered;
    /// the daemon then decides itself.
    fn follow_limits(&mut self) {
        let wanted = !self.steering.refused
            && !self.activity.paused
            && judgement::is_unbound(&self.options.config);
        match self.activity.mode {
            Mode::Manage if wanted => self.start_steering(),
            Mode::Steer if !wanted => self.stop_steering(),
            _ => {}
        }
    }

    fn start_steering(&mut self) {
        match self.steer_kernel() {
            Ok(steered) => {
                if let Err(e) = self.world.stop() {
                    tracing::warn!("{e}");
                }
                self.world.set_survey(false);
                self.steering.active = Some(steered);
                self.activity.mode = Mode::Steer;
                self.activity.source = FOUND_BY_KERNEL.into();
                self.activity.reason = UNBOUND.into();
                let line =
                    format!("steers the kernel's tiering, for all processes alike: {UNBOUND}");
                self.history.notice(self.uptime(), line);
            }
            Err(e) => {
                self.steering.refused = true;
                let line = format!("moves pages itself, because the kernel cannot be steered: {e}");
                self.history.notice(self.uptime(), line);
                self.restore_kernel();
                if !self.world.is_monitoring() {
                    self.manage_again();
                }
            }
        }
    }

    fn stop_steering(&mut self) {
        self.restore_kernel();
        self.steering.active = None;
        self.world.set_survey(true);
        let at = self.uptime();
        self.history.notice(at, "stops steering the kernel's tiering");
        self.manage_again();
    }

    fn restore_kernel(&mut self) {
        if let Err(e) = kernel_tiering::stop(&mut self.settings) {
            tracing::warn!("{e}; `tierwise restore` tries again");
        }
    }

    fn manage_again(&mut self) {
        // The daemon no longer steers, even if monitoring does not start.
        self.activity.mode = Mode::Manage;
        match self.restart_monitoring() {
            Ok(()) => {
                let line = format!("monitors accesses with {}", self.activity.source);
                self.history.notice(self.uptime(), line);
            }
            Err(e) => self.on_monitoring_failed(&format!("{e:#}")),
        }
    }

    fn steer_kernel(&mut self) -> tierwise_linux::error::Result<Steered> {
        let roots = &self.options.roots;
        kernel_tiering::probe(roots)?;
        let host = self.world.host();
        let costs = costs(host)?;
        let law = Steering::new(costs);
        let (course, rate) = (law.course(), self.options.config.moving.rate.bytes());
        kernel_tiering::start(&mut self.settings, roots, &course, rate)?;
        let first = Counters::read(roots)?;
        Ok(Steered {
            law,
            costs,
            course,
            first,
            last: first,
            read_at: Instant::now(),
            started: Instant::now(),
            reader: Reader::default(),
            failed: false,
        })
    }

    /// Reads the kernel's counters once per second, and sets the threshold that follows from them.
    pub(super) fn steer(&mut self) {
        self.follow_limits();
        let Some(steered) = &mut self.steering.active else { return };
        if steered.read_at.elapsed() < INTERVAL {
            return;
        }
        steered.read_at = Instant::now();
        let nodes = self.world.host().tiers.first().map_or(&[][..], |tier| &tier.nodes);
        let (roots, rate) = (&self.options.roots, self.options.config.moving.rate.bytes());
        let read = Counters::read(roots).and_then(|counters| {
            let demotable = Demotable::read(roots, nodes, &mut steered.reader)?;
            steered.last = counters;
            let now = Timestamp::ZERO + steered.started.elapsed();
            let reading = Reading {
                promoted: counters.promoted,
                candidates: counters.candidates,
                demoted: counters.demoted,
                faults: counters.hint_faults,
                poisoned: counters.poisoned,
                fast: demotable.pages,
                idle: demotable.idle,
            };
            let course = steered.law.update(now, &reading);
            tracing::debug!(?reading, ?course, "steering");
            if is_worth_telling(&steered.course, &course) {
                kernel_tiering::follow(&mut self.settings, &course, rate)?;
                steered.course = course;
            }
            Ok(())
        });
        match read {
            Ok(()) => steered.failed = false,
            Err(e) if !steered.failed => {
                steered.failed = true;
                let line = format!("the kernel's tiering goes on as it is: {e}");
                self.history.notice(self.started.elapsed().as_secs_f64(), line);
            }
            Err(_) => {}
        }
    }

    /// Returns the state of steering for the view.
    pub(super) fn steering_view(&self) -> Option<SteeringView> {
        let Steered { costs, course, first, last, .. } = self.steering.active.as_ref()?;
        Some(SteeringView {
            hot_threshold_ms: course.threshold.as_millis() as u64,
            scan_period_ms: course.period.as_millis() as u64,
            copy_ns: costs.copy.as_nanos() as u64,
            promoted_pages: last.promoted.saturating_sub(first.promoted),
            demoted_pages: last.demoted.saturating_sub(first.demoted),
            hint_faults: last.hint_faults.saturating_sub(first.hint_faults),
        })
    }
}

fn is_worth_telling(old: &Course, new: &Course) -> bool {
    let differs = |old: Duration, new: Duration| {
        let (old, new) = (old.as_secs_f64(), new.as_secs_f64());
        (new - old).abs() > WORTH_A_CHANGE * old
    };
    differs(old.threshold, new.threshold)
        || differs(old.period, new.period)
        || (old.rate, old.chunk) != (new.rate, new.chunk)
}

/// Returns the costs on this machine; those of a copy and of a fault are measured.
fn costs(host: &Host) -> tierwise_linux::error::Result<Costs> {
    let [fast, .., slow] = &host.tiers[..] else {
        return Ok(Costs { saved: Duration::ZERO, copy: Duration::ZERO, fault: Duration::ZERO });
    };
    let latency = |tier: &tierwise_linux::topology::HostTier| tier.figures.load_latency.value;
    let node = |tier: &tierwise_linux::topology::HostTier| tier.nodes.first().copied();
    let saved = latency(slow).saturating_sub(latency(fast));
    let (from, to) = (node(fast).unwrap_or_default(), node(slow).unwrap_or_default());
    let (copy, fault) = (kernel_tiering::copy_cost(from, to)?, kernel_tiering::fault_cost());
    Ok(Costs { saved, copy, fault })
}
