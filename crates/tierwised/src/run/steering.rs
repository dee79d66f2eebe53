//! Steering: while no tenant has a floor, a cap or an SLO, the kernel promotes and demotes pages by
//! itself, and the daemon sets how much a page must be used to be promoted
//! (`tierwise_core::steer`). It then monitors nothing and moves nothing itself.

use std::time::{Duration, Instant};

use tierwise_core::steer::{Costs, Course, Reading, Steering};
use tierwise_core::units::Timestamp;
use tierwise_linux::kernel_tiering::{self, Counters, Demotable};
use tierwise_linux::monitor::thread_cpu;
use tierwise_linux::process::Reader;
use tierwise_linux::topology::Host;

use super::pace::Pace;
use super::refusal::Refusal;
use super::{Daemon, setup};
use crate::judgement;
use crate::view::{Mode, SteeringView};

/// The part by which a time must change before the daemon sets it: each change is noted on the disk
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
    pub(super) refusal: Refusal,
}

/// The state of steering that has started.
#[derive(Debug)]
struct Steered {
    law: Steering,
    costs: Costs,
    /// Set in the kernel.
    course: Course,
    first: Counters,
    last: Counters,
    pace: Pace,
    started: Instant,
    /// The last that could be read.
    demotable: Option<Demotable>,
    reader: Reader,
    /// The counters cannot be read, and the log has it.
    failed: bool,
}

impl Daemon {
    /// Starts or stops steering, as the configuration wants it. A kernel that cannot be steered is
    /// reported once; the daemon then decides itself, and tries again later.
    fn follow_limits(&mut self) {
        let wanted = !self.steering.refusal.holds()
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
                self.steering.refusal.end();
                self.activity.mode = Mode::Steer;
                self.activity.source = FOUND_BY_KERNEL.into();
                self.activity.reason = UNBOUND.into();
                let line =
                    format!("steers the kernel's tiering, for all processes alike: {UNBOUND}");
                self.history.notice(self.uptime(), line);
            }
            Err(e) => {
                if self.steering.refusal.is_news() {
                    let line =
                        format!("moves pages itself, because the kernel cannot be steered: {e}");
                    self.history.notice(self.uptime(), line);
                }
                if !self.world.is_monitoring() {
                    self.manage_again();
                } else if let Err(e) = setup::take_over(&self.options, &mut self.settings) {
                    // Steering may have restored what the configuration names.
                    self.history.notice(self.uptime(), format!("{e:#}"));
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
        let first = Counters::read(roots)?;
        if let Err(e) = kernel_tiering::start(&mut self.settings, roots, &course, rate) {
            self.restore_kernel();
            return Err(e);
        }
        Ok(Steered {
            law,
            costs,
            course,
            first,
            last: first,
            pace: Pace::new(),
            started: Instant::now(),
            demotable: None,
            reader: Reader::default(),
            failed: false,
        })
    }

    /// Reads the kernel's counters once per second, and sets the threshold that follows from them.
    pub(super) fn steer(&mut self) {
        self.follow_limits();
        let part = self.cpu_part();
        let Some(steered) = &mut self.steering.active else { return };
        if !steered.pace.is_due() {
            return;
        }
        let before = thread_cpu();
        let nodes = self.world.host().tiers.first().map_or(&[][..], |tier| &tier.nodes);
        let (roots, rate) = (&self.options.roots, self.options.config.moving.rate.bytes());
        let read = Counters::read(roots).and_then(|counters| {
            let read = Demotable::read(roots, nodes, &mut steered.reader);
            steered.demotable = read.as_ref().ok().copied().or(steered.demotable);
            let Some(demotable) = steered.demotable else { return read.map(drop) };
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
            read.map(drop)
        });
        steered.pace.rest(thread_cpu().saturating_sub(before), part);
        match read {
            Ok(()) => steered.failed = false,
            Err(e) if !steered.failed => {
                steered.failed = true;
                let line = format!("steers by what it last could read and set: {e}");
                self.history.notice(self.started.elapsed().as_secs_f64(), line);
            }
            Err(_) => {}
        }
    }

    /// Steering for the view.
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

/// The costs on this machine; those of a copy and of a fault are measured.
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
