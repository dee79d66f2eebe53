//! The law of steering, over any costs, counters and times.

use std::time::Duration;

use proptest::prelude::*;
use tierwise_core::steer::{
    CHUNK, Costs, Course, FIRST_CHUNK, MAX_PERIOD, MAX_THRESHOLD, MIN_PERIOD, MIN_THRESHOLD,
    Reading, Steering, pays_within,
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

fn costs() -> impl Strategy<Value = Costs> {
    (duration(), duration(), duration()).prop_map(|(saved, copy, fault)| Costs {
        saved,
        copy,
        fault,
    })
}

fn reading() -> impl Strategy<Value = Reading> {
    let counters = (number(), number(), number(), number(), number());
    (counters, number(), prop::option::of(duration())).prop_map(|(counters, fast, idle)| {
        let (promoted, candidates, demoted, faults, poisoned) = counters;
        Reading { promoted, candidates, demoted, faults, poisoned, fast: Pages(fast), idle }
    })
}

/// Readings and the times between them: none, a second, and ages in which the daemon was stopped.
fn readings() -> impl Strategy<Value = Vec<(u64, Reading)>> {
    let step = prop_oneof![Just(0), Just(1_000_000_000), 0u64..200_000_000_000, number()];
    prop::collection::vec((step, reading()), 0..12)
}

fn check(course: &Course) -> Result<(), TestCaseError> {
    let whole = |time: Duration| time.subsec_nanos().is_multiple_of(1_000_000);
    prop_assert!((MIN_THRESHOLD..=MAX_THRESHOLD).contains(&course.threshold), "{course:?}");
    prop_assert!((MIN_PERIOD..=MAX_PERIOD).contains(&course.period), "{course:?}");
    prop_assert!(whole(course.threshold) && whole(course.period), "{course:?}");
    prop_assert!([FIRST_CHUNK, CHUNK].contains(&course.chunk), "{course:?}");
    Ok(())
}

/// The law after some readings.
fn after(costs: Costs, readings: &[(u64, Reading)]) -> (Steering, u64) {
    let (mut steering, mut now) = (Steering::new(costs), 0u64);
    for (step, reading) in readings {
        now = now.saturating_add(*step);
        steering.update(Timestamp(now), reading);
    }
    (steering, now)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_counters_give_a_course_in_range(costs in costs(), readings in readings()) {
        let (mut steering, mut now) = (Steering::new(costs), 0u64);
        check(&steering.course())?;
        for (step, reading) in readings {
            now = now.saturating_add(step);
            let course = steering.update(Timestamp(now), &reading);
            check(&course)?;
            prop_assert_eq!(course, steering.course());
            // Copies that cost nothing need no limit.
            prop_assert_eq!(course.rate.is_some(), costs.copy > Duration::ZERO);
        }
    }

    #[test]
    fn idler_pages_never_lower_the_threshold(
        costs in costs(),
        readings in readings(),
        last in reading(),
        idle in (duration(), duration()),
    ) {
        let (steering, now) = after(costs, &readings);
        let threshold = |idle| {
            let reading = Reading { idle: Some(idle), ..last };
            steering.clone().update(Timestamp(now.saturating_add(1 << 30)), &reading).threshold
        };
        prop_assert!(threshold(idle.0.min(idle.1)) <= threshold(idle.0.max(idle.1)));
    }

    #[test]
    fn more_candidates_never_raise_the_threshold(
        costs in costs(),
        readings in readings(),
        last in reading(),
        candidates in (number(), number()),
    ) {
        let (steering, now) = after(costs, &readings);
        let threshold = |candidates| {
            let reading = Reading { candidates, ..last };
            steering.clone().update(Timestamp(now.saturating_add(1 << 30)), &reading).threshold
        };
        let (few, many) = (candidates.0.min(candidates.1), candidates.0.max(candidates.1));
        prop_assert!(threshold(many) <= threshold(few));
    }

    #[test]
    fn worth_grows_with_residence_and_savings(
        residence in (duration(), duration()),
        saved in (duration(), duration()),
        copy in (duration(), duration()),
    ) {
        let low = pays_within(
            residence.0.min(residence.1),
            saved.0.min(saved.1),
            copy.0.max(copy.1),
        );
        let high = pays_within(
            residence.0.max(residence.1),
            saved.0.max(saved.1),
            copy.0.min(copy.1),
        );
        prop_assert!(low <= high, "{low:?} {high:?}");
    }
}
