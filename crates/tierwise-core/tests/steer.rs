//! Properties of steering, for all costs, counters and times.

use std::time::Duration;

use proptest::prelude::*;
use tierwise_core::steer::{
    IdlePages, KernelReading, LONG_GAP, MAX_THRESHOLD, MIN_THRESHOLD, SHORT_GAP, Steering,
    SteeringCosts, victims,
};
use tierwise_core::units::{Pages, Timestamp};

/// Ordinary numbers, and those at the ends of the type.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        Just(u64::MAX - 1),
        any::<u64>(),
        0u64..1_000_000,
        any::<u32>().prop_map(u64::from),
    ]
}

fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::MAX),
        number().prop_map(Duration::from_nanos),
        number().prop_map(Duration::from_secs),
    ]
}

fn costs() -> impl Strategy<Value = SteeringCosts> {
    let cpus = prop_oneof![Just(0.0), Just(f64::NAN), 0.0..1e6];
    (duration(), duration(), duration(), cpus)
        .prop_map(|(saved, copy, fault, cpus)| SteeringCosts { saved, copy, fault, cpus })
}

fn reading() -> impl Strategy<Value = KernelReading> {
    let counters = (number(), number(), number(), number(), number());
    let class = (duration(), number(), any::<bool>()).prop_map(|(idle, pages, is_own)| IdlePages {
        idle,
        pages: Pages(pages),
        is_own,
    });
    let pages = (number(), number(), number(), number(), prop::collection::vec(class, 0..6));
    (counters, pages, duration()).prop_map(|(counters, pages, counting)| {
        let (free, restored, held, slow, fast) = pages;
        let (promoted, candidates, demoted, faults, poisoned) = counters;
        let (free, restored, held, slow) = (Pages(free), Pages(restored), Pages(held), Pages(slow));
        KernelReading {
            promoted,
            candidates,
            demoted,
            faults,
            poisoned,
            free,
            available: free.min(held),
            restored,
            held,
            slow,
            fast,
            counting,
        }
    })
}

/// Readings and the times between them: none, a second, and years in which the daemon was stopped.
fn readings() -> impl Strategy<Value = Vec<(u64, KernelReading)>> {
    let step = prop_oneof![Just(0), Just(1_000_000_000), 0u64..200_000_000_000, number()];
    prop::collection::vec((step, reading()), 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// For all counters, the course is one that the kernel accepts, and promotes no more than there
    /// are victims, or were free pages: the kernel counts what it has counted against the rate.
    #[test]
    fn any_counters_give_a_course_in_range(costs in costs(), readings in readings()) {
        let (mut steering, mut now) = (Steering::new(costs), 0u64);
        let (mut counted, mut free) = (0u64, Pages(0));
        for (step, reading) in readings {
            now = now.saturating_add(step);
            counted = counted.max(reading.candidates);
            free = free.max(reading.available);
            let course = steering.update(Timestamp(now), &reading, true);
            prop_assert!((MIN_THRESHOLD..=MAX_THRESHOLD).contains(&course.threshold));
            prop_assert_eq!(course.threshold.subsec_nanos() % 1_000_000, 0);
            prop_assert_eq!(course, steering.course());
            // Copies that cost nothing need no limit.
            prop_assert_eq!(course.rate.is_some(), costs.copy > Duration::ZERO);
            let most = steering.victims().pages.max(free).0.saturating_add(counted);
            prop_assert!(course.rate.is_none_or(|rate| rate.0 <= most));
        }
    }

    /// Counting costs CPU time: a count is followed at once by three others at most, a doubt's, one
    /// with a shorter gap, and one with the long gap if most pages are idle for the shorter.
    #[test]
    fn counts_at_once_are_four_at_most(costs in costs(), readings in readings()) {
        let (mut steering, mut now, mut at_once) = (Steering::new(costs), 0u64, 0);
        for (step, reading) in readings {
            now = now.saturating_add(step);
            // Nothing is counted during a scan.
            let is_fresh = !steering.course().scans;
            steering.update(Timestamp(now), &reading, is_fresh);
            at_once = if is_fresh && steering.wants_count() { at_once + 1 } else { 0 };
            prop_assert!(at_once <= 3);
        }
    }

    #[test]
    fn idler_pages_are_as_many_victims(reading in reading(), longer in duration()) {
        let idler = KernelReading {
            fast: reading
                .fast
                .iter()
                .map(|class| IdlePages { idle: class.idle.saturating_add(longer), ..*class })
                .collect(),
            ..reading.clone()
        };
        for (is_first, gap) in [(true, LONG_GAP), (false, LONG_GAP), (false, SHORT_GAP)] {
            let found = |reading| victims(reading, is_first, gap).pages;
            prop_assert!(found(&idler) >= found(&reading));
        }
    }
}
