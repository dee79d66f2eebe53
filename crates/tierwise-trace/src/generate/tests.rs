//! Tests of every generator's guarantees: the trace is well-formed, the seed determines it, and its
//! counts agree with its ground truth.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::ycsb::{Operation, OperationKind, OperationMix, Operations, hash};
use super::{GENERATORS, GenerateError, GeneratorSpec, Motion, build, ground_truth, place_of};
use crate::model::{PageBacking, Window, WindowSource};

fn spec() -> GeneratorSpec {
    GeneratorSpec {
        footprint_pages: 512,
        accesses_per_window: 5_000,
        windows: Some(8),
        hot_fraction: 0.125,
        dwell_windows: 2,
        change_windows: vec![3, 6],
        head_pages_per_window: 40,
        seed: 11,
        ..GeneratorSpec::default()
    }
}

fn all_windows(source: &mut dyn WindowSource) -> Vec<Window> {
    let mut windows = Vec::new();
    let mut window = Window::default();
    while source.next_window(&mut window).unwrap() {
        windows.push(window.clone());
    }
    windows
}

fn windows_of(name: &str, spec: &GeneratorSpec) -> Vec<Window> {
    all_windows(build(name, spec).unwrap().as_mut())
}

/// The run phase's accesses by place, one map per window.
fn run_counts(name: &str, spec: &GeneratorSpec) -> Vec<HashMap<u64, u32>> {
    let mut places = HashMap::new();
    let mut counts = Vec::new();
    for window in windows_of(name, spec) {
        places.extend(
            window.allocations.iter().map(|allocation| (allocation.page, place_of(allocation))),
        );
        if window.marks.iter().any(|mark| mark == "run") || !counts.is_empty() {
            let by_place = window.accesses.iter().map(|a| (places[&a.page], a.loads + a.stores));
            counts.push(by_place.collect());
        }
    }
    counts
}

fn assert_well_formed(name: &str, spec: &GeneratorSpec) {
    let windows = windows_of(name, spec);
    let mut allocated = 0;
    for window in &windows {
        for allocation in &window.allocations {
            assert_eq!(allocation.page, allocated, "{name}: allocations are numbered in order");
            assert_eq!(allocation.order, spec.order);
            allocated += 1;
        }
        let pages: Vec<u32> = window.accesses.iter().map(|access| access.page).collect();
        assert!(pages.is_sorted_by(|a, b| a < b), "{name}: ascending, each once");
        assert!(pages.last().is_none_or(|&last| last < allocated), "{name}: only allocated pages");
        let touched: HashSet<u32> = pages.into_iter().collect();
        assert!(window.allocations.iter().all(|allocation| touched.contains(&allocation.page)));
        for access in &window.accesses {
            assert_eq!((access.loads, access.stores), (access.load_misses, access.store_misses));
            assert!(access.loads + access.stores > 0, "{name}: a listed page is touched");
        }
        assert_eq!(window.threads[0].instructions, window.instructions);
    }
    let runs = windows.iter().filter(|window| window.marks.iter().any(|mark| mark == "run"));
    assert_eq!(runs.count(), 1, "{name}");
}

#[test]
fn every_generator_makes_a_well_formed_trace() {
    for entry in GENERATORS {
        for touch_first in [true, false] {
            assert_well_formed(entry.name, &GeneratorSpec { touch_first, ..spec() });
        }
        let huge = GeneratorSpec { order: 9, footprint_pages: 512 * 64, ..spec() };
        assert_well_formed(entry.name, &huge);
    }
}

#[test]
fn the_seed_decides_and_rewinding_starts_over() {
    for entry in GENERATORS {
        let mut source = build(entry.name, &spec()).unwrap();
        let first = all_windows(source.as_mut());
        source.rewind().unwrap();
        assert_eq!(all_windows(source.as_mut()), first, "{}: rewound", entry.name);
        assert_eq!(windows_of(entry.name, &spec()), first, "{}: same seed", entry.name);
        let other = windows_of(entry.name, &GeneratorSpec { seed: 12, ..spec() });
        assert_ne!(other, first, "{}: another seed", entry.name);
    }
}

#[test]
fn load_phase_touches_pages_by_address() {
    let spec = GeneratorSpec { accesses_per_window: 100, windows: Some(1), ..spec() };
    let windows = windows_of("uniform", &spec);
    assert_eq!(windows[0].marks, ["load"]);
    // 512 pages, 100 a window: five full windows and one of 12 pages.
    assert_eq!(windows.iter().position(|window| window.marks == ["run"]), Some(6));
    let allocations: Vec<u64> = windows.iter().flat_map(|w| &w.allocations).map(place_of).collect();
    assert!(allocations.into_iter().eq(0..512));
    assert_eq!(windows[5].instructions, 12 * spec.instructions_per_access);
}

#[test]
fn a_file_fraction_is_met_exactly() {
    let spec = GeneratorSpec { file_fraction: 0.25, ..spec() };
    let windows = windows_of("uniform", &spec);
    let allocations = windows.iter().flat_map(|window| &window.allocations);
    assert_eq!(allocations.filter(|allocation| allocation.kind == PageBacking::File).count(), 128);
}

/// Pearson's statistic over one window's places, against `accesses` times their probabilities.
fn chi_square(counts: &HashMap<u64, u32>, expected: impl Fn(u64) -> f64, places: u64) -> f64 {
    (0..places)
        .map(|place| {
            let want = expected(place);
            (f64::from(counts.get(&place).copied().unwrap_or(0)) - want).powi(2) / want
        })
        .sum()
}

#[test]
fn sampled_counts_follow_the_ground_truth() {
    for motion in [Motion::Stairs, Motion::Zigzag, Motion::Jump] {
        let spec = GeneratorSpec { motion, ..spec() };
        for entry in GENERATORS.iter().filter(|entry| entry.truth.is_some()) {
            let truth = ground_truth(entry.name, &spec).unwrap().unwrap();
            for (window, counts) in (0..).zip(run_counts(entry.name, &spec)) {
                let expected = |place| 5_000.0 * truth.probability(window, place);
                let statistic = chi_square(&counts, expected, 512);
                // 511 degrees of freedom: mean 511, deviation sqrt(2 * 511) = 32; within five.
                assert!((351.0..671.0).contains(&statistic), "{} {statistic}", entry.name);
            }
        }
    }
}

#[test]
fn ground_truth_is_a_summed_distribution() {
    let spec = spec();
    for entry in GENERATORS.iter().filter(|entry| entry.truth.is_some()) {
        let truth = ground_truth(entry.name, &spec).unwrap().unwrap();
        for window in [0, 3, 7] {
            let mut all: Vec<f64> = (0..512).map(|p| truth.probability(window, p)).collect();
            all.sort_by(|a, b| b.total_cmp(a));
            assert!((all.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{}", entry.name);
            for hottest in [1, 64, 65, 300, 512] {
                let sum: f64 = all[..hottest].iter().sum();
                let share = truth.hottest_share(window, hottest as u64);
                assert!((sum - share).abs() < 1e-9, "{}: {hottest}", entry.name);
            }
        }
    }
}

proptest! {
    /// In exact mode the hottest k pages get their share of every window to within one access, and
    /// every page its share of all windows to within a few accesses.
    #[test]
    fn exact_counts_are_the_expectations(
        exponent in 0.0..2.0_f64, hottest in 1_u64..512, scrambled: bool, seed: u64,
    ) {
        let spec = GeneratorSpec {
            exact: true, zipf_exponent: exponent, scrambled, seed, windows: Some(50), ..spec()
        };
        for name in ["zipf", "uniform"] {
            let truth = ground_truth(name, &spec).unwrap().unwrap();
            let mut places: Vec<u64> = (0..512).collect();
            places.sort_by(|&a, &b| truth.probability(0, b).total_cmp(&truth.probability(0, a)));
            let mut sums: HashMap<u64, f64> = HashMap::new();
            for counts in run_counts(name, &spec) {
                prop_assert_eq!(counts.values().sum::<u32>(), 5_000);
                let hot = places[..hottest as usize].iter().filter_map(|place| counts.get(place));
                let hot = f64::from(hot.sum::<u32>());
                prop_assert!((hot - 5_000.0 * truth.hottest_share(0, hottest)).abs() <= 1.0);
                for (place, count) in counts {
                    *sums.entry(place).or_default() += f64::from(count);
                }
            }
            for place in 0..512 {
                let expected = 50.0 * 5_000.0 * truth.probability(0, place);
                let got = sums.get(&place).copied().unwrap_or(0.0);
                // Each end of the rank's interval is off by the discrepancy of 50 golden-ratio
                // steps, of the order of log(50) and independent of the interval (Kuipers and
                // Niederreiter, "Uniform Distribution of Sequences", chapter 2.3): below 3.
                prop_assert!((got - expected).abs() < 6.0, "{}: {} for {}", name, got, expected);
            }
        }
    }
}

#[test]
fn exact_mode_splits_stores_by_ratio() {
    let spec = GeneratorSpec { exact: true, write_ratio: 0.3, ..spec() };
    for window in windows_of("zipf", &spec).iter().filter(|window| window.allocations.is_empty()) {
        assert_eq!(window.accesses.iter().map(|access| access.stores).sum::<u32>(), 1_500);
    }
}

#[test]
fn sequential_reads_every_line_in_order() {
    let counts = run_counts("sequential", &GeneratorSpec { accesses_per_window: 640, ..spec() });
    for (window, counts) in (0..).zip(counts) {
        let expected = (0..10).map(|page| (window * 10 + page, 64)).collect();
        assert_eq!(counts, expected, "window {window}: 640 lines are ten pages");
    }
}

#[test]
fn pointer_chase_visits_all_before_repeating() {
    for counts in run_counts("pointer-chase", &GeneratorSpec { accesses_per_window: 512, ..spec() })
    {
        assert_eq!(counts.len(), 512);
        assert!(counts.values().all(|&count| count == 1));
    }
}

#[test]
fn zigzag_turns_at_both_ends() {
    let spec =
        GeneratorSpec { motion: Motion::Zigzag, hot_fraction: 0.25, dwell_windows: 1, ..spec() };
    let truth = ground_truth("moving-hot-set", &spec).unwrap().unwrap();
    let hot = |window| {
        let place = (0..512)
            .max_by(|&a, &b| truth.probability(window, a).total_cmp(&truth.probability(window, b)));
        place.unwrap() / 128
    };
    let path: Vec<u64> = (0..8).map(hot).collect();
    assert_eq!(path, [0, 1, 2, 3, 2, 1, 0, 1]);
}

#[test]
fn phase_change_has_two_disjoint_hot_sets() {
    let truth = ground_truth("phase-change", &spec()).unwrap().unwrap();
    let hot = |window| -> HashSet<u64> {
        (0..512).filter(|&place| truth.probability(window, place) > 1.0 / 512.0).collect()
    };
    let (a, b) = (hot(0), hot(3));
    assert_eq!((a.len(), b.len()), (64, 64));
    assert!(a.is_disjoint(&b));
    assert_eq!((hot(2), hot(5), hot(6)), (a.clone(), b, a));
}

#[test]
fn workload_mixes_operations_like_ycsb() {
    let shares = |mix| {
        let mut counts: HashMap<OperationKind, f64> = HashMap::new();
        for operation in Operations::new(mix, 1000, 5).unwrap().take(100_000) {
            *counts.entry(operation.kind).or_default() += 0.001;
        }
        let of = |kind| counts.get(&kind).copied().unwrap_or(0.0);
        [
            of(OperationKind::Read),
            of(OperationKind::Update),
            of(OperationKind::Insert),
            of(OperationKind::ReadModifyWrite),
        ]
    };
    for (letter, expected) in [
        ("a", [50.0, 50.0, 0.0, 0.0]),
        ("B", [95.0, 5.0, 0.0, 0.0]),
        ("c", [100.0, 0.0, 0.0, 0.0]),
        ("d", [95.0, 0.0, 5.0, 0.0]),
        ("f", [50.0, 0.0, 0.0, 50.0]),
        ("w", [0.0, 100.0, 0.0, 0.0]),
    ] {
        for (got, want) in shares(OperationMix::named(letter).unwrap()).into_iter().zip(expected) {
            // The deviation of a share of 100 000 draws is at most 0.16 points.
            assert!((got - want).abs() < 0.8, "{letter}: {got} for {want}");
        }
    }
    assert_eq!(OperationMix::named("e"), None);
}

#[test]
fn scrambled_zipfian_keeps_first_ranks_share() {
    let operations = Operations::new(OperationMix::C, 1000, 3).unwrap().take(200_000);
    let hottest = hash(0) % 1000;
    let share = operations.filter(|op| op.key == hottest).count() as f64 / 200_000.0;
    // Rank 1 of 10^10 at 0.99: 1 / 26.469, and its record's thousandth of the other ranks, of which
    // no other among the first ten falls on the same record.
    let expected = 1.0 / 26.469 + (1.0 - 1.0 / 26.469) / 1000.0;
    assert!((share - expected).abs() < 0.003, "{share} for {expected}");
}

#[test]
fn latest_prefers_the_newest_record() {
    let mut operations = Operations::new(OperationMix::D, 1000, 3).unwrap();
    let (mut newest, mut reads) = (0, 0);
    for _ in 0..100_000 {
        let last = operations.records() - 1;
        let Operation { kind, key } = operations.next().unwrap();
        match kind {
            OperationKind::Insert => assert_eq!(key, last + 1),
            _ => {
                reads += 1;
                newest += u32::from(key == last);
            }
        }
    }
    // H(1000, 0.99) = 7.73 and H(6000, 0.99) = 9.61 bound the share of the newest record.
    let share = f64::from(newest) / f64::from(reads);
    assert!((0.100..0.132).contains(&share), "{share}");
}

#[test]
fn only_ycsb_d_grows_its_footprint() {
    for entry in GENERATORS.iter().filter(|entry| entry.name.starts_with("ycsb-")) {
        let windows = windows_of(entry.name, &spec());
        let run = windows.iter().position(|window| window.marks.contains(&"run".into())).unwrap();
        let grown: usize = windows[run..].iter().map(|window| window.allocations.len()).sum();
        assert_eq!(grown > 0, entry.name == "ycsb-d", "{}: {grown} pages", entry.name);
        let operations: u64 = windows.iter().map(|window| window.operations).sum();
        // 8 windows of 5000 accesses; a read or update of 1000 bytes is 17 or 18 accesses, a
        // read-modify-write twice that.
        assert!(
            (1_700..=2_360).contains(&operations) || entry.name == "ycsb-f" && operations > 1_400,
            "{}: {operations}",
            entry.name
        );
    }
}

#[test]
fn long_operation_borrows_from_next_window() {
    let spec = GeneratorSpec { accesses_per_window: 5, windows: Some(100), ..spec() };
    let windows = windows_of("ycsb-c", &spec);
    let run: Vec<&Window> = windows.iter().skip_while(|w| w.marks != ["run"]).collect();
    let accesses: u32 = run.iter().flat_map(|w| &w.accesses).map(|a| a.loads + a.stores).sum();
    assert!((500..518).contains(&accesses), "{accesses}");
}

#[test]
fn wrong_parameters_are_refused_with_limits() {
    let refused = |name: &str, spec: GeneratorSpec| match build(name, &spec) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{name} accepted {spec:?}"),
    };
    let message = refused("zipff", spec());
    assert!(message.contains("\"zipff\"") && message.contains("pointer-chase"), "{message}");
    for (name, key, spec) in [
        ("uniform", "order", GeneratorSpec { order: 4, ..spec() }),
        ("uniform", "footprint_pages", GeneratorSpec { footprint_pages: 0, ..spec() }),
        ("uniform", "footprint_pages", GeneratorSpec { order: 9, footprint_pages: 700, ..spec() }),
        ("uniform", "footprint_pages", GeneratorSpec { footprint_pages: 1 << 32, ..spec() }),
        ("uniform", "accesses_per_window", GeneratorSpec { accesses_per_window: 0, ..spec() }),
        ("uniform", "write_ratio", GeneratorSpec { write_ratio: f64::NAN, ..spec() }),
        ("uniform", "file_fraction", GeneratorSpec { file_fraction: 1.5, ..spec() }),
        ("zipf", "zipf_exponent", GeneratorSpec { zipf_exponent: -1.0, ..spec() }),
        ("phase-change", "change_windows", GeneratorSpec { change_windows: vec![5, 2], ..spec() }),
        ("moving-hot-set", "hot_fraction", GeneratorSpec { hot_fraction: 0.6, ..spec() }),
        ("moving-hot-set", "hot_fraction", GeneratorSpec { hot_fraction: 1e-9, ..spec() }),
        ("moving-hot-set", "dwell_windows", GeneratorSpec { dwell_windows: 0, ..spec() }),
        ("ycsb-a", "record_bytes", GeneratorSpec { record_bytes: 0, ..spec() }),
        ("ycsb-a", "footprint_pages", GeneratorSpec { footprint_pages: 2, ..spec() }),
    ] {
        let message = refused(name, spec);
        assert!(message.starts_with(key), "{message}");
    }
    assert!(matches!(Operations::new(OperationMix::A, 0, 0), Err(GenerateError::Parameter { .. })));
}
