use super::*;

const COSTS: SteeringCosts = SteeringCosts {
    saved: Duration::from_nanos(130),
    copy: Duration::from_nanos(2500),
    fault: Duration::from_nanos(5000),
    cpus: 1.0,
};

fn tenth(n: u64) -> Timestamp {
    Timestamp(n * 100_000_000)
}

fn of(victims: u64) -> Conditions {
    Conditions {
        free: Pages(0),
        idle: Pages(victims),
        in_use: Pages(1000_u64.saturating_sub(victims)),
        places: Pages(victims),
        threshold: Duration::from_millis(50),
        is_longer: false,
        fast: Pages(1000),
        slow: Pages(9000),
        counting: Duration::ZERO,
        doubts_heat: false,
        spare: Pages(0),
    }
}

/// The tenths of a second in which the kernel scans, given (promoted, victims after it) of each
/// pass, which is done within a tenth. 9000 pages are poisoned, and all of them fault.
fn on(mut victims: u64, passes: &[(u64, u64)], tenths: u64) -> Vec<u64> {
    let mut scanning = Scanning::new(COSTS);
    let (mut counts, mut passes) = (Counts::default(), passes.iter().copied());
    let mut on = Vec::new();
    let mut is_scanned = false;
    let mut counted = victims;
    for n in 0..tenths {
        if scanning.is_on() && !is_scanned {
            let (promoted, left) = passes.next().unwrap_or((0, victims));
            victims = left;
            counts.poisoned += 9000;
            counts.faults += 9000;
            counts.promoted += promoted;
            counts.candidates += promoted;
            counts.demoted += promoted;
        }
        is_scanned = scanning.is_on() && !is_scanned;
        if !scanning.is_on() {
            counted = victims;
        }
        scanning.update(tenth(n), counts, &of(counted), true);
        scanning.waiting.leave_nothing_to_chance();
        on.extend(scanning.is_on().then_some(n));
    }
    on
}

#[test]
fn waiting_pages_are_not_scanned_again() {
    let start = Counts { poisoned: 9000, faults: 2000, ..Counts::default() };
    let ends = |of_scan: u64| {
        let mut scanning = Scanning::new(COSTS);
        scanning.update(tenth(0), start, &of(400), true);
        let counts = Counts { poisoned: 9000 + of_scan, ..start };
        (1..200_u64).find(|&n| {
            scanning.update(tenth(n), counts, &of(400), false);
            !scanning.is_on()
        })
    };
    // 7000 of 9000 slow pages wait, and 7200 are a scan.
    assert_eq!(ends(200), Some(5), "three tenths without another, and the threshold");
    assert_eq!(ends(199), Some(101), "the longest pass");
    assert_eq!(ends(0), Some(101), "nothing was scanned");
    assert_eq!(ends(7200), Some(2));
}

#[test]
fn waiting_pages_count_as_scanned() {
    let scanned = |waiting: u64| {
        let start = Counts { poisoned: 20_000, faults: 20_000 - waiting, ..Counts::default() };
        let mut scanning = Scanning::new(COSTS);
        scanning.update(tenth(0), start, &of(400), true);
        let counts = Counts { poisoned: 20_300, promoted: 250, candidates: 250, ..start };
        (1..200_u64).find_map(|n| match scanning.update(tenth(n), counts, &of(400), false) {
            Step::Ended { scanned, .. } => Some(scanned),
            Step::Started | Step::None => None,
        })
    };
    assert_eq!(scanned(0), Some(300));
    assert_eq!(scanned(7000), Some(7300));
    assert_eq!(scanned(15_000), Some(9250), "not more than the tenants have: others have ended");
}

#[test]
fn nothing_is_scanned_without_victims() {
    assert!(on(0, &[(900, 0); 20], 20).is_empty());
}

#[test]
fn passes_follow_while_victims_fall() {
    let falling = [(300, 600), (300, 320), (290, 50), (0, 50)];
    // A tenth of a second for the scan, another for accesses within the threshold.
    // Then idle pages are counted. For 50 victims a fourth pass does not pay.
    assert_eq!(on(900, &falling, 20), [0, 1, 3, 4, 6, 7]);
}

#[test]
fn pass_that_removes_no_victim_ends() {
    // 9000 faults of 5 us are 45 ms, 300 pairs of copies 1.5 ms: at 1 % the pause is 4.65 s.
    assert_eq!(on(400, &[(300, 400); 9], 55), [0, 1, 50, 51]);
}

#[test]
fn few_promotions_show_no_effect_yet() {
    let mut series = Series::new(&of(400));
    let mut effect = |promoted, victims| {
        series.add(&Counts { promoted, ..Counts::default() }, &of(victims));
        series.effect
    };
    // A sixteenth of the fast tier are 62.5 pages.
    assert_eq!(effect(40, 420), 1.0);
    assert_eq!(effect(40, 430), 0.0, "80 pages, and none of them in use");
    assert_eq!(effect(100, 380), 0.5, "of the last hundred only");
}

#[test]
fn idle_pages_of_others_hide_no_effect() {
    let mut series = Series::new(&of(400));
    // kswapd made room of others' pages in use, so as many pages are idle as before.
    let after = Conditions { in_use: Pages(900), ..of(400) };
    series.add(&Counts { promoted: 400, ..Counts::default() }, &after);
    assert_eq!((series.effect, series.used), (0.75, 300.0));
}

#[test]
fn pages_promoted_by_chance_end_a_series() {
    // The first pass finds what is in use; the second one's pages are soon idle, and it ends
    // early, because 100 victims were left.
    let (first, second) = ((300, 100), (300, 400));
    assert_eq!(on(400, &[first, second], 15), [0, 1, 3]);
}

#[test]
fn change_within_a_pass_is_followed() {
    // 220 promoted pages are in use, and then 440 pages more are idle.
    assert_eq!(on(400, &[(220, 180), (60, 620)], 9), [0, 1, 3, 4, 6, 7]);
    assert_eq!(on(400, &[(220, 180), (60, 619)], 9), [0, 1, 3, 4], "those of the series, too");
    assert_eq!(on(400, &[(300, 400)], 9), [0, 1], "pages promoted by chance are idle");
}

#[test]
fn pass_without_promotions_is_the_last() {
    assert_eq!(on(400, &[(0, 400); 9], 40), [0, 1]);
}

#[test]
fn longer_threshold_repeats_a_pass() {
    let mut scanning = Scanning::new(COSTS);
    scanning.update(tenth(0), Counts::default(), &of(400), true);
    let pass = Counts { poisoned: 9000, faults: 9000, ..Counts::default() };
    scanning.update(tenth(1), pass, &of(400), false);
    scanning.update(tenth(2), pass, &of(400), false);
    let longer = Conditions { is_longer: true, ..of(400) };
    scanning.update(tenth(3), pass, &longer, true);
    assert!(scanning.is_on());
}

#[test]
fn series_ends_when_nothing_is_idle() {
    let mut scanning = Scanning::new(COSTS);
    scanning.update(tenth(0), Counts::default(), &of(400), true);
    let pass = Counts { poisoned: 9000, faults: 9000, ..Counts::default() };
    scanning.update(tenth(1), pass, &of(400), false);
    scanning.update(tenth(2), pass, &of(400), false);
    assert!(scanning.wants_count());
    scanning.update(tenth(3), pass, &of(0), false);
    assert!(scanning.wants_count(), "not counted since");
    scanning.update(tenth(4), pass, &of(0), true);
    // 9000 faults of 5 us are 45 ms, of which a pause takes 1 %.
    assert_eq!((scanning.wants_count(), scanning.pause()), (false, Duration::from_millis(4500)));
}

#[test]
fn candidates_without_room_are_counted() {
    let mut scanning = Scanning::new(COSTS);
    scanning.update(tenth(0), Counts::default(), &of(400), true);
    let pass = Counts { poisoned: 9000, candidates: 700, promoted: 100, ..Counts::default() };
    scanning.update(tenth(1), pass, &of(400), false);
    assert_eq!((scanning.wants_count(), scanning.without_room(None)), (false, Pages(0)));
    scanning.update(tenth(2), pass, &of(400), false);
    assert_eq!((scanning.wants_count(), scanning.without_room(None)), (true, Pages(600)));
    assert_eq!(scanning.without_room(Some(Pages(400))), Pages(300), "the rate allows 400");
    assert_eq!(scanning.without_room(Some(Pages(100))), Pages(0));
}

#[test]
fn faults_after_a_pass_are_its_cost() {
    let mut scanning = Scanning::new(COSTS);
    scanning.update(tenth(0), Counts::default(), &of(400), true);
    let pass = Counts { poisoned: 9000, faults: 1000, ..Counts::default() };
    scanning.update(tenth(1), pass, &of(400), false);
    scanning.update(tenth(2), pass, &of(400), false);
    let later = Counts { faults: 9000, ..pass };
    scanning.update(tenth(3), later, &of(400), true);
    assert_eq!(scanning.pause(), Duration::from_secs_f64(9000.0 * 5e-6 / MAX_SCANNING));
}

#[test]
fn pass_ends_with_the_last_victim() {
    let ends_with = |promoted| {
        let mut scanning = Scanning::new(COSTS);
        scanning.update(tenth(0), Counts::default(), &of(400), true);
        let counts = Counts { poisoned: 500, promoted, ..Counts::default() };
        scanning.update(tenth(1), counts, &of(400), false);
        scanning.wants_count()
    };
    assert!(!ends_with(399));
    assert!(ends_with(400));
}

#[test]
fn candidates_without_room_repeat_a_pass() {
    let follows = |candidates| {
        let mut scanning = Scanning::new(COSTS);
        scanning.update(tenth(0), Counts::default(), &of(400), true);
        let pass = Counts { poisoned: 9000, faults: 9000, promoted: 60, demoted: 60, candidates };
        scanning.update(tenth(1), pass, &of(400), false);
        scanning.update(tenth(2), pass, &of(400), false);
        scanning.waiting.leave_nothing_to_chance();
        scanning.update(tenth(3), pass, &of(340), true);
        scanning.is_on()
    };
    // One page saves 0.62 ms in a minute: 9000 faults are 73 pages. 22 of 60 are expected.
    assert!(!follows(60 + 50));
    assert!(follows(60 + 53));
}

#[test]
fn free_places_need_no_effect() {
    let follows = |free| {
        let mut scanning = Scanning::new(COSTS);
        scanning.update(tenth(0), Counts::default(), &of(400), true);
        let pass =
            Counts { poisoned: 9000, faults: 9000, promoted: 300, demoted: 300, candidates: 340 };
        scanning.update(tenth(1), pass, &of(400), false);
        scanning.update(tenth(2), pass, &of(400), false);
        let as_idle_as_before = Conditions { free: Pages(free), ..of(400) };
        scanning.update(tenth(3), pass, &as_idle_as_before, true);
        scanning.is_on()
    };
    assert_eq!([follows(0), follows(100)], [false, true]);
}

#[test]
fn gain_is_followed_by_more_counts() {
    let mut scanning = Scanning::new(COSTS);
    let mut part = |n, counts, victims| {
        scanning.update(tenth(n), counts, &of(victims), true);
        scanning.counting()
    };
    assert_eq!(part(0, Counts::default(), 400), MAX_COUNTING);
    let pass = Counts { poisoned: 9000, faults: 9000, promoted: 340, ..Counts::default() };
    part(1, pass, 400);
    part(2, pass, 400);
    // 340 pages took the places of 340 idle ones. The pause is 1 s, or 0.2 s after a change.
    assert_eq!(part(3, pass, 60), MAX_SCANNING);
    assert_eq!(part(4, pass, 60), MAX_SCANNING, "no series could have started");
    assert_eq!(part(20, pass, 60), MAX_SCANNING * LESS, "nothing has changed");
    assert_eq!((30..40).map(|n| part(n, pass, 60)).last(), Some(MAX_COUNTING), "again");
}

#[test]
fn few_places_start_no_series() {
    let starts = |places| {
        let mut scanning = Scanning::new(COSTS);
        let of = Conditions { places: Pages(places), ..of(400) };
        scanning.update(tenth(0), Counts::default(), &of, true);
        scanning.is_on()
    };
    // A sixteenth of the fast tier are 62.5 pages.
    assert_eq!([starts(62), starts(63)], [false, true]);
}

#[test]
fn pass_with_many_candidates_ends() {
    let ends_with = |candidates| {
        let mut scanning = Scanning::new(COSTS);
        scanning.update(tenth(0), Counts::default(), &of(400), true);
        let counts = Counts { poisoned: 900, promoted: 10, candidates, ..Counts::default() };
        scanning.update(tenth(1), counts, &of(400), false);
        scanning.wants_count()
    };
    assert!(!ends_with(799));
    assert!(ends_with(800));
}

#[test]
fn nothing_is_scanned_without_slow_pages() {
    let mut scanning = Scanning::new(COSTS);
    let nothing_slow = Conditions { slow: Pages(0), ..of(400) };
    scanning.update(tenth(0), Counts::default(), &nothing_slow, true);
    assert!(!scanning.is_on());
    scanning.update(tenth(1), Counts::default(), &of(400), true);
    assert!(scanning.is_on());
}

#[test]
fn pass_of_memory_not_scanned_ends() {
    let mut scanning = Scanning::new(COSTS);
    scanning.update(tenth(0), Counts::default(), &of(400), true);
    let pass = Counts { poisoned: 100, faults: 100, ..Counts::default() };
    let ends = (1..200_u64).find(|&n| {
        scanning.update(tenth(n), pass, &of(400), false);
        scanning.wants_count()
    });
    assert_eq!(ends, Some(101), "ten seconds and the threshold");
}

#[test]
fn series_without_places_earns_its_cost_first() {
    let of = |victims| Conditions { doubts_heat: true, ..of(victims) };
    let mut scanning = Scanning::new(COSTS);
    scanning.update(tenth(0), Counts::default(), &of(100), true);
    let pass =
        Counts { poisoned: 2000, faults: 2000, promoted: 50, candidates: 200, ..Counts::default() };
    scanning.update(tenth(1), pass, &of(100), false);
    assert!(scanning.is_on(), "candidates count for the whole threshold");
    scanning.update(tenth(2), pass, &of(100), false);
    // 50 victims are left, fewer than a sixteenth of the tier. A pass more would copy 50 pairs.
    scanning.update(tenth(3), pass, &of(50), true);
    let cost = 2000.0 * 5e-6 + 2.0 * 50.0 * 2.5e-6;
    assert_eq!((scanning.is_on(), scanning.pause()), (false, Duration::from_secs_f64(cost / 0.01)));
}

#[test]
fn chance_in_a_part_is_no_answer() {
    let goes_on = |poisoned| {
        let of = Conditions { doubts_heat: true, ..of(400) };
        let mut scanning = Scanning::new(COSTS);
        scanning.update(tenth(0), Counts::default(), &of, true);
        // All pages have their faults within a tenth, so candidates are no hotter than others.
        let pass = Counts { poisoned, faults: poisoned, candidates: 800, ..Counts::default() };
        scanning.update(tenth(1), pass, &of, false);
        scanning.update(tenth(2), pass, &of, false);
        assert!(scanning.wants_count());
        scanning.update(tenth(3), pass, &of, true);
        assert!(scanning.judgement().unwrap().hot < 0.01);
        scanning.is_on()
    };
    // Of 9000 slow pages.
    assert_eq!([goes_on(5000), goes_on(9000)], [true, false]);
}
