use proptest::prelude::*;

use super::*;

const COSTS: SteeringCosts = SteeringCosts {
    saved: Duration::from_nanos(130),
    copy: Duration::from_nanos(2600),
    fault: Duration::from_nanos(5000),
    cpus: 1.0,
};

fn second(n: u64) -> Timestamp {
    Timestamp(n * 1_000_000_000)
}

fn class(ms: u64, pages: u64) -> IdlePages {
    IdlePages { idle: Duration::from_millis(ms), pages: Pages(pages) }
}

fn idle(ms: u64, pages: u64) -> KernelReading {
    KernelReading {
        fast: vec![class(0, 100_000 - pages), class(ms, pages)],
        ..KernelReading::default()
    }
}

fn threshold_ms(reading: &KernelReading, seconds: u64) -> u64 {
    let mut steering = Steering::new(COSTS);
    let mut course = steering.course();
    for n in 0..=seconds {
        course = steering.update(second(n), reading);
    }
    course.threshold.as_millis() as u64
}

#[test]
fn threshold_is_half_of_idle_time() {
    assert_eq!(threshold_ms(&idle(100, 50_000), 0), 50);
    assert_eq!(threshold_ms(&idle(100, 50_000), 5), 50);
    assert_eq!(threshold_ms(&idle(9000, 50_000), 5), 1000);
    let free = KernelReading { free: Pages(50_000), ..idle(100, 0) };
    assert_eq!(threshold_ms(&free, 0), 1000);
}

#[test]
fn fast_tier_in_use_is_left_alone() {
    let mut steering = Steering::new(COSTS);
    // A hundredth is idle.
    assert!(!steering.update(second(0), &idle(5000, 1000)).scans);
    assert!(steering.update(second(1), &idle(5000, 10_000)).scans);
}

#[test]
fn victims_and_stock_bound_the_rate() {
    let mut steering = Steering::new(COSTS);
    let rates: Vec<u64> = [(0, 90_000), (0, 90_000), (40_000, 90_000), (140_000, 90_000)]
        .into_iter()
        .chain([(140_000, 6300), (140_000, 6200)])
        .enumerate()
        .map(|(n, (promoted, victims))| {
            let reading = KernelReading { promoted, ..idle(500, victims) };
            steering.update(second(n as u64), &reading).rate.unwrap().0
        })
        .collect();
    // 4 % of a CPU are 7692 pairs of copies per second. 6200 pages are not a sixteenth.
    assert_eq!(rates, [90_000, 90_000, 67_692, 7692, 6300, 0]);
}

#[test]
fn excess_candidates_lower_the_threshold() {
    let mut steering = Steering::new(COSTS);
    let mut threshold = Duration::ZERO;
    for n in 0..6 {
        let candidates = if n < 4 { 0 } else { (n - 3) * 400_000 };
        threshold = steering
            .update(second(n), &KernelReading { candidates, ..idle(4000, 50_000) })
            .threshold;
    }
    // Eight times the rate; three tenths of that are known after one second, half after two.
    assert!(threshold < MAX_THRESHOLD / 6, "{threshold:?}");
}

fn readings() -> impl Strategy<Value = (u64, KernelReading)> {
    let class = (any::<u64>(), any::<u64>())
        .prop_map(|(ns, pages)| IdlePages { idle: Duration::from_nanos(ns), pages: Pages(pages) });
    let counts = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>());
    (any::<u64>(), counts, any::<u64>(), proptest::collection::vec(class, 0..6)).prop_map(
        |(at, (promoted, candidates, demoted, faults, poisoned), free, fast)| {
            let free = Pages(free);
            (at, KernelReading { promoted, candidates, demoted, faults, poisoned, free, fast })
        },
    )
}

proptest! {
    /// Whatever the counters are, the course is one that the kernel takes, and promotes no more
    /// than there are victims.
    #[test]
    fn course_stays_within_its_ranges(
        readings in proptest::collection::vec(readings(), 1..20),
        (saved, copy, fault) in (any::<u64>(), any::<u64>(), any::<u64>()),
        cpus in 0.0..1e6,
    ) {
        let ns = Duration::from_nanos;
        let costs = SteeringCosts { saved: ns(saved), copy: ns(copy), fault: ns(fault), cpus };
        let mut steering = Steering::new(costs);
        for (at, reading) in readings {
            let course = steering.update(Timestamp(at), &reading);
            prop_assert!((MIN_THRESHOLD..=MAX_THRESHOLD).contains(&course.threshold));
            prop_assert_eq!(course.threshold.subsec_nanos() % 1_000_000, 0);
            if copy > 0 {
                prop_assert!(course.rate.unwrap() <= steering.victims.pages);
            }
        }
    }
}
