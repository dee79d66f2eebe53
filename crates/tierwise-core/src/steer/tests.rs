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

/// 100,000 pages, some of them idle, and one slow page.
fn idle(ms: u64, pages: u64) -> KernelReading {
    let fast = vec![class(0, 100_000 - pages), class(ms, pages)];
    KernelReading { fast, slow: Pages(1), ..KernelReading::default() }
}

#[test]
fn threshold_starts_at_shortest_idle_time() {
    let first = |reading| Steering::new(COSTS).update(second(0), &reading, true).threshold;
    assert_eq!(first(idle(100, 50_000)), Duration::from_millis(100));
    assert_eq!(first(idle(9000, 50_000)), MAX_THRESHOLD);
    assert_eq!(first(KernelReading { free: Pages(50_000), ..idle(100, 0) }), MAX_THRESHOLD);
}

#[test]
fn free_pages_hide_no_idle_ones() {
    let found = victims(&KernelReading { free: Pages(10_000), ..idle(100, 50_000) });
    let idle = Some((Duration::from_millis(100), 2 * MAX_THRESHOLD));
    assert_eq!(found, PromotionVictims { pages: Pages(60_000), idle });
}

#[test]
fn fast_tier_in_use_is_left_alone() {
    let mut steering = Steering::new(COSTS);
    // A hundredth is idle.
    assert!(!steering.update(second(0), &idle(5000, 1000), true).scans);
    assert!(!steering.update(second(1), &idle(40, 90_000), true).scans, "not long enough");
    assert!(steering.update(second(2), &idle(5000, 10_000), true).scans);
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
            steering.update(second(n as u64), &reading, true).rate.unwrap().0
        })
        .collect();
    // 4 % of a CPU are 7692 pairs of copies per second. 6200 pages are not a sixteenth.
    assert_eq!(rates, [90_000, 90_000, 67_692, 7692, 6300, 0]);
}

/// The thresholds of passes that find so many candidates each, in milliseconds.
fn thresholds(candidates: &[u64]) -> Vec<u128> {
    let mut steering = Steering::new(COSTS);
    let fast = vec![class(0, 50_000), class(100, 40_000), class(800, 10_000)];
    let mut all = 0;
    let first = KernelReading { fast: fast.clone(), slow: Pages(1), ..KernelReading::default() };
    let mut thresholds = vec![steering.update(second(0), &first, true).threshold.as_millis()];
    for (n, more) in candidates.iter().enumerate() {
        all += more;
        let poisoned = 1 + n as u64;
        let reading = KernelReading { candidates: all, poisoned, ..first.clone() };
        // Scanned at once, judged after the threshold, and followed by another.
        let at = |step| second(3 * n as u64 + step);
        steering.update(at(1), &reading, true);
        thresholds.push(steering.update(at(2), &reading, true).threshold.as_millis());
        steering.update(at(3), &reading, true);
    }
    thresholds
}

#[test]
fn few_candidates_lengthen_the_threshold() {
    // An eighth of 50,000 victims are enough.
    assert_eq!(thresholds(&[6000, 6000, 6000, 6000]), [100, 200, 400, 800, 800]);
    assert_eq!(thresholds(&[6250]), [100, 100]);
    assert_eq!(thresholds(&[2500]), [100, 250], "two fifths of enough");
    assert_eq!(thresholds(&[0]), [100, 800], "the longest idle time");
}

#[test]
fn excess_candidates_lower_the_threshold() {
    // In a second, with 50,000 victims.
    assert_eq!(thresholds(&[200_000]), [100, 25]);
}

#[test]
fn few_victims_make_chunks_small() {
    let chunk = |victims| Steering::new(COSTS).update(second(0), &idle(500, victims), true).chunk.0;
    assert_eq!([chunk(0), chunk(7000), chunk(90_000)], [4096, 56_000, 65_536]);
}
