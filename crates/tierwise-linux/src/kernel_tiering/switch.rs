//! The steps to a course: which settings, in which order.
//!
//! Between two series of scans the mode is switched off. Where much of the fast tier is free it
//! stays on, because a switch is not safe there (`settings/promotion.rs`), and the scan period
//! becomes as long as the pause.

use std::time::Duration;

use tierwise_core::steer::{Course, PERIOD};
use tierwise_core::units::{Bytes, Pages};

use super::SteeringLimits;
use crate::process::resident::PAGE_SIZE;
use crate::settings::{Knob, MEMORY_TIERING};

/// `numa_balancing_promote_rate_limit_MBps` without a limit: the kernel's default.
const NO_LIMIT: u64 = 65536;

/// The least free memory of a node at which the kernel promotes whatever the limit
/// (`pgdat_free_space_enough`: the more of this and a sixteenth of the node).
const MUCH_FREE: Bytes = Bytes(1 << 30);

/// The delay of a process's first scan. At a thread's first turn the kernel only notes when the
/// delay ends (`task_numa_work`). Turns that are left from its run time until then pass within a
/// few ticks, and the next one comes after a whole scan period of run time (`task_tick_numa`): up
/// to a second later, because a thread may keep the period of its start. Without a delay the first
/// turn is the first scan. Processes that use less CPU time than a scan period have no turn.
const NO_DELAY: u64 = 0;

/// One step towards a course.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KnobStep {
    Set(Knob, u64),
    /// To the values that these settings had before steering.
    Restore(&'static [Knob]),
}

/// The settings of a balancing kernel that are its own between two scans.
const BALANCING: &[Knob] = &[
    Knob::ScanSize,
    Knob::ScanPeriodMin,
    Knob::ScanPeriodMax,
    Knob::ScanDelay,
    Knob::NumaBalancing,
];

/// The steps to a course, in order, if `kernel.numa_balancing` is now `mode`.
pub(super) fn steps(course: &Course, limits: &SteeringLimits, mode: u64) -> Vec<KnobStep> {
    let (is_on, limit) = (mode & MEMORY_TIERING != 0, rate_limit(course, limits));
    let kept = if limits.balances { mode } else { 0 };
    let mut steps = vec![
        KnobStep::Set(Knob::PromoteRateLimit, limit),
        KnobStep::Set(Knob::HotThreshold, milliseconds(course.threshold)),
    ];
    if course.scans {
        steps.push(KnobStep::Set(Knob::DemotionEnabled, 1));
        steps.push(KnobStep::Set(Knob::ScanDelay, NO_DELAY));
        steps.push(KnobStep::Set(Knob::ScanSize, mebibytes(course.chunk)));
    }
    match (course.scans, is_on) {
        (true, true) => steps.extend(period(PERIOD)),
        (true, false) => {
            steps.extend(period(PERIOD));
            steps.push(KnobStep::Set(Knob::NumaBalancing, kept | MEMORY_TIERING));
        }
        (false, true) if limits.free >= MUCH_FREE => steps.extend(period(course.pause.max(PERIOD))),
        (false, _) if limits.balances => steps.push(KnobStep::Restore(BALANCING)),
        (false, _) => steps.push(KnobStep::Set(Knob::NumaBalancing, 0)),
    }
    steps
}

fn period(period: Duration) -> [KnobStep; 2] {
    [Knob::ScanPeriodMin, Knob::ScanPeriodMax].map(|knob| KnobStep::Set(knob, milliseconds(period)))
}

/// The kernel counts whole MiB per second, and takes 0 for no promotion at all.
fn rate_limit(course: &Course, limits: &SteeringLimits) -> u64 {
    let most = (limits.most.0 >> 20).clamp(1, NO_LIMIT);
    course.rate.map_or(NO_LIMIT, mebibytes).min(most)
}

/// In whole MiB, at least one.
fn mebibytes(pages: Pages) -> u64 {
    (pages.0.saturating_mul(PAGE_SIZE) >> 20).max(1)
}

fn milliseconds(duration: Duration) -> u64 {
    duration.as_millis() as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn mode_follows_scans_unless_unsafe(
            scans in any::<bool>(),
            balances in any::<bool>(),
            mode in 0_u64..4,
            free in prop::sample::select(vec![0, MUCH_FREE.0 - 1, MUCH_FREE.0]),
            rate in prop::option::of(any::<u64>().prop_map(Pages)),
        ) {
            let threshold = Duration::from_millis(40);
            let (chunk, pause) = (Pages(4096), Duration::from_secs(7));
            let course = Course { scans, threshold, chunk, rate, pause };
            let limits = SteeringLimits { most: Bytes(1 << 30), balances, free: Bytes(free) };
            let steps = steps(&course, &limits, mode);
            let at = |step: &KnobStep| steps.iter().position(|s| s == step);
            let Some(&KnobStep::Set(Knob::PromoteRateLimit, limit)) = steps.first() else {
                return Err(TestCaseError::fail("the limit is set before the mode"));
            };
            prop_assert!((1..=1024).contains(&limit));
            let on = steps.iter().position(
                |s| matches!(s, KnobStep::Set(Knob::NumaBalancing, m) if m & MEMORY_TIERING != 0),
            );
            let is_on = mode & MEMORY_TIERING != 0;
            prop_assert_eq!(on.is_some(), scans && !is_on, "on once, and only to scan");
            let delay = at(&KnobStep::Set(Knob::ScanDelay, NO_DELAY));
            prop_assert_eq!(delay.is_some(), scans);
            prop_assert!(delay <= on || on.is_none(), "before the first turn");
            let off = at(&KnobStep::Set(Knob::NumaBalancing, 0));
            let off = off.or(at(&KnobStep::Restore(BALANCING)));
            let stays = is_on && free >= MUCH_FREE.0;
            prop_assert_eq!(off.is_some(), !scans && !stays);
            if !scans && stays {
                prop_assert!(at(&KnobStep::Set(Knob::ScanPeriodMax, 7000)).is_some());
            }
        }
    }
}
