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
    IdlePages { idle: Duration::from_millis(ms), pages: Pages(pages), is_own: true }
}

/// 100,000 pages, some of them idle, and the fewest slow pages for which the kernel scans.
fn idle(ms: u64, pages: u64) -> KernelReading {
    let fast = vec![class(0, 100_000 - pages), class(ms, pages)];
    KernelReading { fast, slow: Pages(256), ..KernelReading::default() }
}

#[test]
fn threshold_starts_at_shortest_idle_time() {
    let first = |reading| Steering::new(COSTS).update(second(0), &reading, true).threshold;
    assert_eq!(first(idle(100, 50_000)), Duration::from_millis(100));
    assert_eq!(first(idle(9000, 50_000)), MAX_THRESHOLD);
    assert_eq!(first(idle(899, 50_000)), LONG_GAP, "a late generation of a repeated count");
    assert_eq!(first(idle(900, 50_000)), Duration::from_millis(900));
    assert_eq!(first(KernelReading { free: Pages(50_000), ..idle(100, 0) }), MAX_THRESHOLD);
}

#[test]
fn free_pages_hide_no_idle_ones() {
    let reading = KernelReading { free: Pages(10_000), ..idle(100, 50_000) };
    let found = victims(&reading, true, LONG_GAP);
    let idle = Some((Duration::from_millis(100), 2 * MAX_THRESHOLD));
    assert_eq!(found, PromotionVictims { pages: Pages(60_000), idle });
}

#[test]
fn free_pages_that_return_are_no_victims() {
    let found = |free| {
        let reading = KernelReading { free: Pages(free), restored: Pages(4000), ..idle(100, 0) };
        victims(&reading, true, LONG_GAP).pages
    };
    assert_eq!([found(3000), found(10_000), found(11_000)], [Pages(0), Pages(0), Pages(7000)]);
}

#[test]
fn fast_tier_in_use_is_left_alone() {
    let mut steering = Steering::new(COSTS);
    // A hundredth is idle.
    assert!(!steering.update(second(0), &idle(5000, 1000), true).scans);
    assert!(!steering.update(second(1), &idle(40, 90_000), true).scans, "not long enough");
    assert!(steering.update(second(2), &idle(5000, 13_000), true).scans);
}

#[test]
fn pages_idle_for_short_are_counted_again() {
    let mut steering = Steering::new(COSTS);
    let mut doubts = |n, reading: KernelReading| {
        let scans = steering.update(second(n), &reading, true).scans;
        (scans, steering.wants_count())
    };
    // A fifth was not accessed for 0.3 s, by chance perhaps.
    assert_eq!(doubts(0, idle(300, 20_000)), (false, true));
    // The same pages are idle.
    assert_eq!(doubts(1, idle(700, 20_000)), (true, false));
}

#[test]
fn few_idle_pages_shorten_the_gap() {
    let mut steering = Steering::new(COSTS);
    let mut count = |n, reading: KernelReading| {
        let scans = steering.update(second(n), &reading, true).scans;
        (scans, steering.wants_count(), steering.age_gap().as_millis())
    };
    // A fifth was not accessed for 0.3 s, but others were not before: that was by chance.
    assert_eq!(count(0, idle(300, 20_000)), (false, true, 300));
    assert_eq!(count(1, idle(300, 20_000)), (false, true, 100));
    // The count is not repeated for ever, and the gap is as it was again.
    assert_eq!(count(2, idle(100, 20_000)), (false, false, 300));
    // Fewer than an eighth would do for a scan; more may be idle for a shorter time.
    assert_eq!(count(3, idle(3000, 12_000)), (false, true, 100));
    assert_eq!(count(4, idle(200, 20_000)), (true, false, 100));
    assert!(Steering::new(COSTS).update(second(0), &idle(3000, 13_000), true).scans);
}

#[test]
fn doubt_after_a_scan_is_counted_again() {
    let mut steering = after_scan_with(15_000);
    let counted = KernelReading { candidates: 15_000, poisoned: 20_000, ..idle(300, 20_000) };
    let reading = KernelReading { slow: Pages(8000), faults: 15_000, ..counted };
    assert!(!steering.update(second(3), &reading, true).scans && steering.wants_count());
    let idler = KernelReading { fast: vec![class(0, 80_000), class(700, 20_000)], ..reading };
    assert!(steering.update(second(4), &idler, true).scans, "the series goes on");
}

#[test]
fn many_pages_idle_for_short_are_victims() {
    let mut steering = Steering::new(COSTS);
    assert!(steering.update(second(0), &idle(300, 25_000), true).scans);
}

#[test]
fn later_series_need_pages_idle_for_longer() {
    let mut steering = Steering::new(COSTS);
    let mut update = |n, ms, is_fresh| {
        // A first scan that costs more than it can gain.
        let counts = if n == 0 { (0, 0, 0) } else { (256, 6250, 10_000_000) };
        let (poisoned, candidates, faults) = counts;
        let reading = KernelReading { poisoned, candidates, faults, ..idle(ms, 49_000) };
        let scans = steering.update(second(n), &reading, is_fresh).scans;
        (scans, steering.wants_count())
    };
    assert_eq!(update(0, 300, true), (true, false));
    update(1, 300, false);
    assert_eq!(update(3, 300, false), (false, true), "the scan has ended");
    assert_eq!(update(4, 300, true), (false, false), "and so has the series");
    assert_eq!(update(100, 300, true), (false, true), "in doubt");
    assert_eq!(update(101, 700, true), (true, false));
}

#[test]
fn certain_victims_leave_no_doubt() {
    let fast = vec![class(0, 70_000), class(300, 20_000), class(3000, 10_000)];
    let reading = KernelReading { fast, slow: Pages(256), ..KernelReading::default() };
    let mut steering = Steering::new(COSTS);
    let course = steering.update(second(0), &reading, true);
    // 30 % are idle: all of them are victims.
    assert_eq!((course.scans, course.rate), (true, Some(Pages(30_000))));
    // Fewer are: those that were idle for long.
    let fast = vec![class(0, 77_000), class(300, 10_000), class(3000, 13_000)];
    let reading = KernelReading { fast, slow: Pages(30_000), ..KernelReading::default() };
    let course = Steering::new(COSTS).update(second(0), &reading, true);
    assert_eq!((course.scans, course.rate), (true, Some(Pages(13_000))));
    assert_eq!(course.threshold, Duration::from_millis(300), "the shortest idle time of all");
}

#[test]
fn nothing_is_counted_again_without_slow_pages() {
    for slow in [Pages(0), Pages(255)] {
        let mut steering = Steering::new(COSTS);
        let few_slow = KernelReading { slow, ..idle(300, 20_000) };
        steering.update(second(0), &few_slow, true);
        assert!(!steering.wants_count() && !Steering::may_promote(slow));
    }
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
    // The same for a pass. 4 % of a CPU are 7692 pairs of copies per second. 6200 pages are not a
    // sixteenth.
    assert_eq!(rates, [90_000, 90_000, 90_000, 7692, 6300, 0]);
}

#[test]
fn stock_is_whole_before_the_count() {
    let mut steering = Steering::new(COSTS);
    for n in 0..3 {
        let reading = KernelReading { free: Pages(600), ..KernelReading::default() };
        steering.update(second(n), &reading, false);
    }
    let course = steering.update(second(3), &idle(500, 50_000), true);
    assert_eq!(course.rate, Some(Pages(50_000)));
}

/// The thresholds of passes that find so many candidates each, in milliseconds.
fn thresholds(candidates: &[u64]) -> Vec<u128> {
    let mut steering = Steering::new(COSTS);
    let fast = vec![class(0, 50_000), class(100, 40_000), class(800, 10_000)];
    let (mut all, slow) = (0, 100_000);
    let first = KernelReading { fast, slow: Pages(slow), ..KernelReading::default() };
    let mut thresholds = vec![steering.update(second(0), &first, true).threshold.as_millis()];
    for (n, more) in candidates.iter().enumerate() {
        all += more;
        let poisoned = (1 + n as u64) * slow;
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
fn idleness_within_series_lengthens_the_threshold() {
    let mut steering = Steering::new(COSTS);
    // As many pages are idle as the tenants have slow ones: for 0.3 s when the series starts.
    let counted = |ms, candidates, poisoned| {
        let slow = Pages(40_000 - candidates);
        KernelReading { slow, candidates, poisoned, promoted: candidates, ..idle(ms, 45_000) }
    };
    let first = steering.update(second(0), &counted(300, 0, 0), true);
    assert_eq!((first.scans, first.threshold), (true, LONG_GAP));
    steering.update(second(1), &counted(300, 10_000, 40_000), false);
    assert!(!steering.update(second(2), &counted(300, 20_000, 40_000), false).scans);
    let next = steering.update(second(3), &counted(3000, 20_000, 40_000), true);
    assert_eq!((next.scans, next.threshold), (true, MAX_THRESHOLD));
}

#[test]
fn late_scans_are_looked_for_rarely() {
    let mut steering = Steering::new(COSTS);
    let mut rests = |ms: u64, poisoned| {
        let reading = KernelReading { poisoned, slow: Pages(8000), ..idle(500, 45_000) };
        steering.update(Timestamp(ms * 1_000_000), &reading, ms == 0);
        steering.scan_rests()
    };
    assert_eq!([rests(0, 0), rests(1900, 10)], [Duration::ZERO; 2], "it may begin now");
    assert_eq!(rests(2000, 10), rest::LATE_INTERVAL, "pages of another process");
    assert_eq!(rests(2300, 5000), Duration::ZERO, "it has begun");
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
fn room_for_all_leaves_nothing_to_choose() {
    let fast = vec![class(0, 50_000), class(100, 40_000), class(900, 10_000)];
    let first = |slow| {
        let reading =
            KernelReading { fast: fast.clone(), slow: Pages(slow), ..KernelReading::default() };
        Steering::new(COSTS).update(second(0), &reading, true).threshold.as_millis()
    };
    assert_eq!([first(10_000), first(10_001), first(60_000)], [900, 100, 100]);
}

#[test]
fn excess_candidates_lower_the_threshold() {
    // In a second, with 50,000 victims.
    assert_eq!(thresholds(&[200_000]), [100, 25]);
}

#[test]
fn few_victims_make_chunks_small() {
    let chunk = |victims| {
        let fast = vec![class(0, 20_000), class(500, victims)];
        let reading = KernelReading { fast, slow: Pages(256), ..KernelReading::default() };
        Steering::new(COSTS).update(second(0), &reading, true).chunk.0
    };
    assert_eq!([chunk(0), chunk(7000), chunk(90_000)], [FIRST_CHUNK, 56_000, 65_536]);
}

/// A steering that has scanned 20,000 slow pages, of which so many were candidates, and that has
/// 30,000 victims.
fn after_scan_with(candidates: u64) -> Steering {
    let mut steering = Steering::new(COSTS);
    let reading = KernelReading { slow: Pages(20_000), ..idle(500, 30_000) };
    steering.update(second(0), &reading, true);
    let scanned = KernelReading { candidates, poisoned: 20_000, faults: candidates, ..reading };
    steering.update(second(1), &scanned, false);
    steering.update(second(2), &scanned, false);
    steering
}

#[test]
fn chunks_follow_the_share_of_candidates() {
    let chunk = |candidates, victims| {
        let mut steering = after_scan_with(candidates);
        steering.update(second(3), &idle(500, victims), true).chunk.0
    };
    // Twice as many candidates as victims.
    assert_eq!([chunk(10_000, 7000), chunk(16_000, 7000)], [28_000, 17_500]);
    assert_eq!(chunk(0, 7000), 65_536, "the largest");
}

#[test]
fn chunks_cover_the_fast_pages_between() {
    let chunk = |held| {
        let fast = vec![class(0, 20_000), class(500, 7000)];
        let (held, slow) = (Pages(held), Pages(10_000));
        let reading = KernelReading { fast, held, slow, ..KernelReading::default() };
        Steering::new(COSTS).update(second(0), &reading, true).chunk.0
    };
    assert_eq!([chunk(0), chunk(1000), chunk(90_000)], [56_000, 61_600, 65_536]);
}

#[test]
fn room_is_made_before_a_series() {
    let room = |free, victims| {
        let mut steering = Steering::new(COSTS);
        let fast = vec![class(0, 40_000), class(500, victims)];
        let (free, slow) = (Pages(free), Pages(40_000));
        let reading =
            KernelReading { free, available: free, slow, fast, ..KernelReading::default() };
        steering.update(second(0), &reading, true);
        let first = steering.room();
        steering.update(second(1), &reading, false);
        (first, steering.room())
    };
    // A quarter of 40,000 slow pages.
    assert_eq!(room(0, 30_000), (Pages(10_000), Pages(0)), "once");
    assert_eq!(room(0, 7000), (Pages(7000), Pages(0)), "for no more than victims");
    assert_eq!(room(9000, 30_000), (Pages(1000), Pages(0)), "beside the free pages");
    assert_eq!(room(20_000, 30_000), (Pages(0), Pages(0)));
    assert_eq!(room(0, 0), (Pages(0), Pages(0)));
}

#[test]
fn pages_on_lists_are_no_room() {
    let mut steering = Steering::new(COSTS);
    let counted = KernelReading { slow: Pages(40_000), ..idle(500, 30_000) };
    let reading = KernelReading { free: Pages(9000), available: Pages(2000), ..counted };
    steering.update(second(0), &reading, true);
    assert_eq!(steering.room(), Pages(8000));
}

#[test]
fn few_pages_of_others_set_no_threshold() {
    let fast = vec![class(0, 69_000), class(110, 1000), class(950, 30_000)];
    let reading = KernelReading { fast, slow: Pages(256), ..KernelReading::default() };
    let course = Steering::new(COSTS).update(second(0), &reading, true);
    assert_eq!(course.threshold, Duration::from_millis(950));
}

#[test]
fn short_gap_in_vain_becomes_rare() {
    let mut steering = Steering::new(COSTS);
    let mut tries = Vec::new();
    for n in 0..40 {
        // Few pages are idle for the long gap, and none for the short one.
        let ms = if steering.age_gap() == SHORT_GAP { 0 } else { 3000 };
        steering.update(second(n), &idle(ms, 5000), true);
        tries.extend((steering.age_gap() == SHORT_GAP).then_some(n));
    }
    assert_eq!(tries, [0, 2, 5, 10, 19, 28, 37]);
}

#[test]
fn short_gap_series_start_small() {
    let places = |is_short| {
        let mut steering = Steering::new(COSTS);
        steering.gap = gap::Gap::after_tries(is_short, 0);
        let reading = KernelReading { slow: Pages(80_000), ..idle(500, 40_000) };
        let course = steering.update(second(0), &reading, true);
        assert!(course.scans);
        (course.rate.unwrap().0, steering.room().0)
    };
    // Whole megabytes, up to a sixteenth of the fast tier.
    assert_eq!([places(false), places(true)], [(40_000, 20_000), (6144, 6144)]);
}

#[test]
fn short_gap_wants_much_hotter_pages() {
    let threshold = |is_short| {
        let mut steering = Steering::new(COSTS);
        steering.gap = gap::Gap::after_tries(is_short, 0);
        steering.update(second(0), &idle(300, 40_000), true).threshold.as_millis()
    };
    assert_eq!([threshold(false), threshold(true)], [300, 75]);
}

#[test]
fn short_gap_series_without_gain_is_left() {
    let gap_after = |idle_pages| {
        let mut steering = Steering::new(COSTS);
        steering.gap = gap::Gap::after_tries(true, 0);
        let before = KernelReading { slow: Pages(20_000), ..idle(200, 40_000) };
        steering.update(second(0), &before, true);
        let pass = |idle_pages| KernelReading {
            promoted: 39_000,
            candidates: 39_000,
            poisoned: 20_000,
            faults: 10_000_000,
            slow: Pages(20_000),
            ..idle(200, idle_pages)
        };
        steering.update(second(1), &pass(40_000), false);
        steering.update(second(3), &pass(40_000), false);
        assert!(steering.wants_count());
        steering.update(second(4), &pass(idle_pages), true);
        assert!(!steering.is_in_series());
        steering.gap
    };
    assert_eq!(gap_after(40_000), gap::Gap::after_tries(false, 1), "as many are idle as before");
    assert_eq!(gap_after(1000), gap::Gap::after_tries(true, 0));
}

#[test]
fn doubtful_pages_make_no_room() {
    let room = |idle_ms| {
        let mut steering = Steering::new(COSTS);
        let reading = KernelReading { slow: Pages(40_000), ..idle(idle_ms, 30_000) };
        assert!(steering.update(second(0), &reading, true).scans);
        steering.room()
    };
    // They may have been idle for the gap of 0.3 s by chance.
    assert_eq!([room(300), room(400)], [Pages(0), Pages(10_000)]);
}

#[test]
fn room_follows_the_last_scans_share() {
    let reading = |victims| {
        let counted = KernelReading { candidates: 15_000, poisoned: 20_000, ..idle(500, victims) };
        KernelReading { slow: Pages(8000), faults: 15_000, ..counted }
    };
    let mut steering = after_scan_with(15_000);
    assert_eq!(steering.room(), Pages(0), "not judged yet");
    // None of its 15,000 candidates was promoted.
    assert!(steering.update(second(3), &reading(30_000), true).scans);
    assert_eq!(steering.room(), Pages(15_000));

    let mut steering = after_scan_with(15_000);
    // Nothing is idle, and the series ends. Another starts a minute later.
    steering.update(second(3), &reading(0), true);
    assert_eq!((steering.course().scans, steering.room()), (false, Pages(0)));
    assert!(steering.update(second(70), &reading(30_000), true).scans);
    assert_eq!(steering.room(), Pages(6000), "three quarters of 8000");
}

#[test]
fn ending_series_leaves_no_room() {
    let mut steering = after_scan_with(15_000);
    // A sixteenth of the tier's pages has to be idle.
    let reading = KernelReading { candidates: 15_000, poisoned: 20_000, ..idle(500, 3000) };
    let course = steering.update(second(3), &reading, true);
    assert_eq!((course.scans, steering.room()), (false, Pages(0)));
}

#[test]
fn room_keeps_up_with_a_scan() {
    let mut steering = Steering::new(COSTS);
    let first = KernelReading { slow: Pages(40_000), ..idle(500, 30_000) };
    steering.update(second(0), &first, true);
    let mut room = |tenth: u64, candidates, promoted, free| {
        let counted = KernelReading { candidates, promoted, poisoned: 9, ..first.clone() };
        let reading = KernelReading { free: Pages(free), available: Pages(free), ..counted };
        steering.update(Timestamp(tenth * 100_000_000), &reading, false);
        steering.room().0
    };
    assert_eq!(room(1, 3000, 3000, 7000), 0, "there is room for as many");
    assert_eq!(room(2, 8000, 8000, 2000), 3000, "for as many again, beside the free pages");
    assert_eq!(room(3, 8000, 8000, 0), 0, "no page is hot any more");
    assert_eq!(room(4, 36_000, 28_000, 0), 2000, "for no more than the places that are left");
}

#[test]
fn rate_allows_for_candidates_already_counted() {
    let mut steering = Steering::new(COSTS);
    let tenth = |n: u64| Timestamp(n * 100_000_000);
    let reading = |candidates| KernelReading {
        candidates,
        promoted: candidates,
        poisoned: candidates,
        ..idle(500, 30_000 - candidates)
    };
    let mut rate = |n, candidates, is_fresh| {
        let course = steering.update(tenth(n), &reading(candidates), is_fresh);
        (course.scans, course.rate.unwrap().0)
    };
    assert_eq!(rate(0, 0, true), (true, 30_000));
    assert_eq!(rate(1, 1000, false), (true, 30_000));
    assert_eq!(rate(2, 7000, false), (true, 30_000));
    assert!(!rate(6, 7000, false).0, "all is scanned");
    // The kernel's second began with the first candidate, and its count with none.
    assert_eq!(rate(9, 7000, true), (true, 23_000 + 7000));
}

#[test]
fn short_gap_ends_where_most_idle() {
    let gap_after = |pages| {
        let mut steering = Steering::new(COSTS);
        steering.gap = gap::Gap::after_tries(true, 0);
        let course = steering.update(second(0), &idle(200, pages), true);
        (steering.age_gap(), steering.wants_count(), course.scans)
    };
    assert_eq!(gap_after(49_000), (SHORT_GAP, false, true));
    assert_eq!(gap_after(51_000), (LONG_GAP, true, false), "they are counted again");
}

#[test]
fn room_waits_for_the_kernels_rest() {
    let mut steering = Steering::new(COSTS);
    let mut follow = |tenth: u64, poisoned, candidates, is_fresh| {
        let counts = KernelReading {
            poisoned,
            candidates,
            promoted: candidates,
            ..idle(500, 30_000 - candidates)
        };
        let reading = KernelReading { slow: Pages(40_000), ..counts };
        let course = steering.update(Timestamp(tenth * 100_000_000), &reading, is_fresh);
        (course.scans, course.rate.unwrap().0, steering.room().0)
    };
    assert_eq!(follow(0, 0, 0, true), (true, 30_000, 10_000));
    follow(1, 20_000, 4000, false);
    // The kernel rests for five seconds in the first pass.
    follow(51, 40_000, 4000, false);
    assert!(!follow(54, 40_000, 4000, false).0, "all is scanned");
    assert_eq!(follow(58, 40_000, 4000, true), (true, 256, 256), "a second pass, within the rest");
    assert_eq!(follow(80, 40_000, 4000, false), (true, 256, 0));
    assert_eq!(follow(101, 60_000, 4200, false), (true, 26_000 + 200, 4000), "the scan begins");
}

#[test]
fn free_pages_of_a_pause_are_filled() {
    let mut steering = Steering::new(COSTS);
    let mut follow = |second: u64, poisoned, candidates, free| {
        let (free, idle) = (Pages(free), idle(500, if second == 0 { 30_000 } else { 100 }));
        let counts = KernelReading { poisoned, candidates, promoted: candidates, ..idle };
        let restored = Pages(2000);
        let reading =
            KernelReading { free, available: free, restored, slow: Pages(40_000), ..counts };
        let is_fresh = second.is_multiple_of(2);
        let course = steering.update(Timestamp(second * 1_000_000_000), &reading, is_fresh);
        (course.scans, course.rate.unwrap().0, steering.room().0)
    };
    assert!(follow(0, 0, 0, 0).0);
    assert!(follow(1, 40_000, 29_900, 0).0, "all is scanned");
    assert!(!follow(3, 40_000, 29_900, 0).0, "and had its time");
    assert!(!follow(4, 40_000, 29_900, 1500).0, "the series ends");
    // Whole megabytes of what kswapd has left free, and nothing is demoted for them.
    assert!(!follow(6, 40_000, 29_900, 1500).0, "the idle pages are counted again");
    assert_eq!(follow(8, 40_000, 29_900, 1500), (true, 1280, 0));
    assert!(!follow(9, 41_400, 31_200, 200).0, "they are filled");
    assert!(!follow(10, 41_400, 31_200, 1500).0, "once in a pause");
}
