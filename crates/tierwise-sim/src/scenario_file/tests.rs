use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;
use tierwise_core::units::{Bandwidth, Bytes};

use crate::scenario::{Class, Scenario, TierSize, WorkloadSource};

const HEAD: &str = "name = \"s\"\nsummary = \"x\"\n";
const MACHINE: &str = "[machine]\npreset = \"dram-cxl\"\nfast = \"64MiB\"\n";
const WORKLOAD: &str = "[[workload]]\nname = \"w\"\ntrace = \"a.twt\"\n";

fn parse(text: &str) -> Result<Scenario, String> {
    Scenario::parse("s.toml", text, Path::new("/base")).map_err(|error| error.to_string())
}

fn refusal(text: &str) -> String {
    parse(text).expect_err("was accepted")
}

/// A refusal of the machine's or the workload's keys, in an otherwise good file.
fn machine_refusal(machine: &str) -> String {
    refusal(&format!("{HEAD}{machine}{WORKLOAD}"))
}

fn workload_refusal(workload: &str) -> String {
    refusal(&format!("{HEAD}{MACHINE}[[workload]]\nname = \"w\"\n{workload}"))
}

#[test]
fn smallest_scenario_uses_defaults() {
    let scenario = parse(&format!("{HEAD}{MACHINE}{WORKLOAD}")).unwrap();
    assert_eq!(scenario.sizes[0], TierSize::Bytes(Bytes(64 << 20)));
    assert_eq!(scenario.duration, None);
    assert_eq!(scenario.budget.bandwidth, None);
    assert_eq!(scenario.machine.page_size, Bytes(4096));
    assert_eq!(scenario.machine.watermark_scale_factor, 10);
    let workload = &scenario.workloads[0];
    assert_eq!(workload.source, WorkloadSource::Trace(PathBuf::from("/base/a.twt")));
    assert_eq!(workload.class, Class::BestEffort);
    assert_eq!((workload.dilation, workload.scale, workload.loops), (1, 1, 1));
    assert_eq!(workload.memory_level_parallelism, 1.0);
}

#[test]
fn every_key_arrives_where_it_belongs() {
    let scenario = parse(
        r#"
        name = "all"
        summary = "every key"
        duration_s = 12.5
        [machine]
        page_size = "16KiB"
        watermark_scale_factor = 200
        instruction_ns = 0.5
        [[machine.tier]]
        name = "HBM"
        share = 0.1
        load_ns = 60
        read_gbps = 800
        channels = 16
        [[machine.tier]]
        name = "DRAM"
        capacity = "1GiB"
        load_ns = 90
        store_ns = 100
        read_gbps = 200
        write_gbps = 150
        [costs]
        hint_fault_ns = 900
        [budget]
        bandwidth_mbps = 200
        [[workload]]
        name = "cache"
        class = "latency-critical"
        trace = "../traces/a.twt"
        merge = 5
        dilation = 30
        scale = 2
        loops = 3
        measure_from = "run"
        measure_to = "end"
        start_s = 1
        stop_s = 9
        huge_pages = true
        memory_level_parallelism = 4
        [[workload]]
        name = "moving"
        [workload.generator]
        pattern = "phase-change"
        footprint = "8MiB"
        hot_fraction = 0.25
        change_windows = [10, 20]
        "#,
    )
    .unwrap();
    let [hbm, dram] = scenario.machine.tiers.as_slice() else { panic!("not two tiers") };
    assert_eq!((hbm.store_ns, hbm.write_gbps, hbm.channels), (60.0, 800.0, 16));
    assert_eq!((dram.store_ns, dram.write_gbps, dram.channels), (100.0, 150.0, 1));
    assert_eq!(scenario.machine.instruction_ns, 0.5);
    assert_eq!(scenario.machine.watermark_scale_factor, 200);
    assert_eq!(scenario.costs.hint_fault_ns, 900.0);
    assert_eq!(scenario.budget.bandwidth, Some(Bandwidth(200_000_000)));
    assert_eq!(scenario.duration, Some(Duration::from_millis(12_500)));
    let [cache, moving] = scenario.workloads.as_slice() else { panic!("not two workloads") };
    assert_eq!(cache.class, Class::LatencyCritical);
    assert_eq!((cache.merge, cache.dilation, cache.scale, cache.loops), (5, 30, 2, 3));
    assert_eq!(cache.measure_from.as_deref(), Some("run"));
    assert_eq!(cache.measure_to.as_deref(), Some("end"));
    assert_eq!((cache.start, cache.stop), (Duration::from_secs(1), Some(Duration::from_secs(9))));
    assert!(cache.huge_pages && cache.memory_level_parallelism == 4.0);
    let WorkloadSource::Generator(pattern, spec) = &moving.source else {
        panic!("not a generator")
    };
    assert_eq!(pattern, "phase-change");
    assert_eq!(spec.footprint_pages, 2048);
    assert_eq!(spec.change_windows, [10, 20]);
    assert_eq!(spec.hot_fraction, 0.25);
}

#[test]
fn shares_become_whole_pages() {
    let machine = "[machine]\npreset = \"dram-cxl\"\nfast_share = 0.333\n";
    let scenario = parse(&format!("{HEAD}{machine}{WORKLOAD}")).unwrap();
    let capacities = |resident| {
        let machine = scenario.resolve(Bytes(resident));
        (machine.tiers[0].capacity, machine.tiers[1].capacity)
    };
    assert_eq!(capacities(4096 * 1000), (Bytes(4096 * 333), Bytes(4096 * 2000)));
    // Nothing resident yet: a tier still holds a page.
    assert_eq!(capacities(0), (Bytes(4096), Bytes(4096)));
}

#[test]
fn sizes_that_make_no_machine_are_refused() {
    let with = |rest: &str| machine_refusal(&format!("[machine]\npreset = \"dram-cxl\"\n{rest}"));
    assert_eq!(
        with(""),
        "s.toml:3: machine.fast: missing; write a size (\"64MiB\"), or fast_share = 0.333"
    );
    assert_eq!(
        with("fast = \"0MiB\"\n"),
        "s.toml:5: machine.fast: found \"0MiB\"; allowed: a size above zero, up to 4096TiB, for \
         instance \"16GiB\""
    );
    assert_eq!(
        with("fast = \"1KiB\"\n"),
        "s.toml:5: machine.fast: found 1 KiB; allowed: from one page (4 KiB) to 16.0 TiB"
    );
    assert_eq!(
        with("fast = \"1MiB\"\nslow = \"17TiB\"\n"),
        "s.toml:6: machine.slow: found 17 TiB; allowed: from one page (4 KiB) to 16.0 TiB"
    );
    assert!(with("fast = \"9TiB\"\nslow = \"9TiB\"\n").contains("pages in all tiers together"));
    assert_eq!(
        with("fast = \"1MiB\"\nfast_share = 0.5\n"),
        "s.toml:6: machine.fast_share: fast sets the size too; keep one"
    );
    assert_eq!(
        with("fast_share = 0\n"),
        "s.toml:5: machine.fast_share: found 0; allowed: a share above 0, for instance 0.333"
    );
    assert_eq!(
        with("fast_share = -1\n"),
        "s.toml:5: machine.fast_share: found -1; allowed: a number from 0 to 2; did you mean 1?"
    );
    assert_eq!(
        with("fast = \"1MiB\"\npage_size = \"8KiB\"\n"),
        "s.toml:6: machine.page_size: found 8 KiB; allowed: \"4KiB\", \"16KiB\", \"64KiB\""
    );
}

#[test]
fn damon_monitors_windows_and_no_service() {
    let damon = "[machine.damon]\nsampling_ms = 10\naggregation_ms = 200\n";
    let scenario = parse(&format!("{HEAD}{MACHINE}{damon}{WORKLOAD}")).unwrap();
    let attrs = scenario.machine.damon.unwrap();
    assert_eq!(attrs.aggregation, Duration::from_millis(200));
    assert_eq!((attrs.max_accesses(), attrs.min_regions, attrs.max_regions), (20, 10, 1000));
    let with = |keys: &str| machine_refusal(&format!("{MACHINE}[machine.damon]\n{keys}"));
    assert_eq!(
        with("sampling_ms = 300\n"),
        "s.toml:6: machine.damon.aggregation_ms: found 100ms; allowed: at least sampling_ms, 300ms"
    );
    let few = with("min_regions = 20\nmax_regions = 10\n");
    assert!(few.contains("damon.max_regions: found 10; allowed: a whole number from 20"), "{few}");
    let service = "[[workload]]\nname = \"w\"\nclass = \"latency-critical\"\nslo_ms = 20\n\
                   [workload.service]\npreset = \"redis\"\ntraces = \"t\"\nload = 0.5\n";
    let refused = refusal(&format!("duration_s = 5\n{HEAD}{MACHINE}{damon}{service}"));
    assert!(refused.contains("workload \"w\" is a service"), "{refused}");
}

#[test]
fn own_cpus_need_enough_of_them() {
    let with = |machine: &str| {
        let text = format!(
            "name = \"s\"\nsummary = \"s\"\n[machine]\npreset = \"dram-cxl\"\nfast = \"1MiB\"\n\
             {machine}[[workload]]\nname = \"w\"\ntrace = \"t.twt\"\nthreads = 4\n\
             own_cpus = true\n"
        );
        Scenario::parse("s.toml", &text, Path::new(".")).map(drop).map_err(|e| e.to_string())
    };
    assert_eq!(with("cpus = 5\n"), Ok(()));
    let few = "s.toml:6: machine.cpus: found 4; allowed: more than 4, which workloads with \
               own_cpus have for themselves";
    assert_eq!(with("cpus = 4\n").unwrap_err(), few);
    let none = "s.toml:3: machine.cpus: missing; own_cpus of a workload needs the machine's \
                number of CPUs";
    assert_eq!(with("").unwrap_err(), none);
}

#[test]
fn a_wrong_preset_or_none_is_refused() {
    assert_eq!(
        machine_refusal("[machine]\npreset = \"dram-clx\"\nfast = \"1MiB\"\n"),
        "s.toml:4: machine.preset: found \"dram-clx\" (did you mean \"dram-cxl\"?); allowed: \
         dram-cxl, dram-remote, dram-cxl-252, dram-slow-140, dram-optane"
    );
    assert_eq!(
        machine_refusal("[machine]\nfast = \"1MiB\"\n"),
        "s.toml:3: machine.preset: missing; allowed: dram-cxl, dram-remote, dram-cxl-252, \
         dram-slow-140, dram-optane; or [[machine.tier]] tables"
    );
    assert_eq!(
        machine_refusal("[machine]\npreset = \"dram-cxl\"\nfast = \"1MiB\"\nslwo = \"1MiB\"\n"),
        "s.toml:6: machine.slwo: unknown key; did you mean \"slow\"?"
    );
}

#[test]
fn tiers_stand_fastest_first_and_are_complete() {
    let tier = |name: &str, rest: &str| {
        format!("[[machine.tier]]\nname = \"{name}\"\ncapacity = \"1MiB\"\n{rest}")
    };
    let good = "load_ns = 80\nread_gbps = 10\n";
    assert_eq!(
        machine_refusal(&(tier("a", good) + &tier("b", "load_ns = 70\nread_gbps = 10\n"))),
        "s.toml:11: machine.tier[1].load_ns: found 70; allowed: at least 80 ns, the latency of \
         \"a\" before it: tiers stand fastest first"
    );
    assert_eq!(
        machine_refusal(&(tier("a", good) + &tier("a", good))),
        "s.toml:9: machine.tier[1].name: found \"a\" a second time; names are unique"
    );
    assert_eq!(
        machine_refusal(&tier("a", "read_gbps = 10\n")),
        "s.toml:3: machine.tier[0].load_ns: missing; write a number of nanoseconds"
    );
    assert_eq!(
        machine_refusal(&tier("a", "load_ns = 0\nread_gbps = 10\n")),
        "s.toml:6: machine.tier[0].load_ns: found 0; allowed: a number from 1 to 1000000"
    );
    let cached = "load_ns = 80\nread_gbps = 30\npage_cache = \"2MiB\"\n";
    assert_eq!(
        machine_refusal(&tier("a", cached)),
        "s.toml:8: machine.tier[0].page_cache: found 2 MiB; allowed: up to 1 MiB, the tier's \
         capacity"
    );
    let eight: String = (0..8).map(|i| tier(&format!("t{i}"), good)).collect();
    assert!(machine_refusal(&eight).ends_with("machine.tier: found 8 tiers; allowed: 1 to 7"));
    assert_eq!(
        machine_refusal(&format!("[machine]\npreset = \"dram-cxl\"\n{}", tier("a", good))),
        "s.toml:4: machine.preset: belongs to a preset, but [[machine.tier]] describes the \
         machine; remove one of them"
    );
}

#[test]
fn a_workload_needs_one_source() {
    assert_eq!(
        workload_refusal(""),
        "s.toml:6: workload[0].trace: missing; write the path of a trace, relative to this file, \
         a [workload.generator] or a [workload.service]"
    );
    assert_eq!(
        workload_refusal("trace = \"a.twt\"\n[workload.generator]\npattern = \"zipf\"\n"),
        "s.toml:8: workload[0].trace: another key names the source, too; keep one of trace, \
         generator, service"
    );
    assert_eq!(
        workload_refusal("trace = 5\n"),
        "s.toml:8: workload[0].trace: found 5; allowed: a text in quotes"
    );
    assert_eq!(
        refusal(&format!("{HEAD}{MACHINE}")),
        "s.toml:1: workload: missing; write at least one [[workload]]"
    );
}

#[test]
fn names_are_unique_and_printable() {
    assert_eq!(
        refusal(&format!("{HEAD}{MACHINE}{WORKLOAD}{WORKLOAD}")),
        "s.toml:10: workload[1].name: found \"w\" a second time; names are unique"
    );
    let bell = format!("name = \"\\u0007\"\nsummary = \"x\"\n{MACHINE}{WORKLOAD}");
    assert_eq!(
        refusal(&bell),
        "s.toml:1: name: found \"\\u{7}\"; allowed: 1 to 64 letters without control characters"
    );
}

#[test]
fn wrong_figures_of_a_workload_are_refused() {
    let with = |rest: &str| workload_refusal(&format!("trace = \"a.twt\"\n{rest}"));
    assert_eq!(
        with("class = \"best-efort\"\n"),
        "s.toml:9: workload[0].class: found \"best-efort\" (did you mean \"best-effort\"?); \
         allowed: best-effort, latency-critical"
    );
    for key in ["merge", "dilation", "scale", "loops"] {
        assert_eq!(
            with(&format!("{key} = 0\n")),
            format!(
                "s.toml:9: workload[0].{key}: found 0; allowed: a whole number from 1 to 1000000"
            )
        );
    }
    assert_eq!(
        with("memory_level_parallelism = 0.5\n"),
        "s.toml:9: workload[0].memory_level_parallelism: found 0.5; allowed: a number from 1 to 128"
    );
    assert_eq!(
        with("start_s = 5\nstop_s = 5\n"),
        "s.toml:10: workload[0].stop_s: found 5; allowed: later than start_s, which is 5"
    );
    assert_eq!(
        with("start_s = nan\n"),
        "s.toml:9: workload[0].start_s: found nan; allowed: a number from 0 to 10000000"
    );
    assert_eq!(
        with("loop = 2\n"),
        "s.toml:9: workload[0].loop: unknown key; did you mean \"loops\"?"
    );
}

#[test]
fn workload_starting_after_end_is_refused() {
    let text = format!("duration_s = 10\n{HEAD}{MACHINE}{WORKLOAD}start_s = 10\n");
    assert_eq!(
        refusal(&text),
        "s.toml:10: workload[0].start_s: found 10; allowed: less than duration_s, which is 10"
    );
}

#[test]
fn follower_names_a_workload_above_it() {
    let second = |rest: &str| {
        format!("{HEAD}{MACHINE}{WORKLOAD}[[workload]]\nname = \"x\"\ntrace = \"b.twt\"\n{rest}")
    };
    let scenario = parse(&second("after = \"w\"\n")).unwrap();
    assert_eq!(scenario.predecessors(), [None, Some(0)]);
    assert_eq!(
        refusal(&second("after = \"x\"\n")),
        "s.toml:12: workload[1].after: found \"x\"; allowed: the name of a workload above it: w"
    );
    assert_eq!(
        workload_refusal("trace = \"a.twt\"\nafter = \"w\"\n"),
        "s.toml:9: workload[0].after: found \"w\"; allowed: none, because it is the first; write \
         the workload that it follows above it"
    );
    assert_eq!(
        refusal(&second("after = \"w\"\nstart_s = 5\n")),
        "s.toml:13: workload[1].start_s: it starts when the workload named by after ends, so \
         start_s would be ignored; keep one of the two"
    );
}

/// By hand: of the first (10) and its two followers (20 and 5) the followers are larger, and of the
/// fourth (30) and its follower (7) the fourth.
#[test]
fn followers_need_no_memory_of_their_own() {
    let follower = |name: &str, after: &str| {
        format!("[[workload]]\nname = \"{name}\"\ntrace = \"b.twt\"\nafter = \"{after}\"\n")
    };
    let last = "[[workload]]\nname = \"z\"\ntrace = \"z.twt\"\n";
    let all = [follower("x", "w"), follower("y", "w"), last.to_owned(), follower("u", "z")];
    let scenario = parse(&format!("{HEAD}{MACHINE}{WORKLOAD}{}", all.concat())).unwrap();
    assert_eq!(scenario.peak_together(&[10, 20, 5, 30, 7]), 25 + 30);
}

#[test]
fn wrong_generators_are_refused() {
    let with = |rest: &str| workload_refusal(&format!("[workload.generator]\n{rest}"));
    let unknown = with("pattern = \"zpif\"\n");
    assert!(
        unknown.starts_with(
            "s.toml:9: workload[0].generator.pattern: found \"zpif\" (did you mean \"zipf\"?)"
        ),
        "{unknown}"
    );
    assert_eq!(
        with("pattern = \"zipf\"\nzipf_exponent = -1\n"),
        "s.toml:10: workload[0].generator.zipf_exponent: found -1; allowed: a number from 0 to \
         10; did you mean 1?"
    );
    assert_eq!(
        with("pattern = \"moving-hot-set\"\nhot_fraction = 0.0\n"),
        "s.toml:10: workload[0].generator.hot_fraction: found 0; allowed: above 0, at most 0.5, \
         and at least one page of the footprint"
    );
    assert_eq!(
        with("pattern = \"zipf\"\nfootprint = \"2TiB\"\n"),
        "s.toml:10: workload[0].generator.footprint: found 2 TiB; allowed: from 4 KiB to 1 TiB"
    );
    assert_eq!(
        with("pattern = \"zipf\"\norder = 9\nfootprint = \"3MiB\"\n"),
        "s.toml:11: workload[0].generator.footprint: found 768; allowed: a multiple of 512 base \
         pages, above 0"
    );
    assert_eq!(
        with("pattern = \"phase-change\"\nchange_windows = [1, \"2\"]\n"),
        "s.toml:10: workload[0].generator.change_windows: found \"2\"; allowed: a list of whole \
         numbers, [10, 20]"
    );
    assert_eq!(
        with("pattern = \"zipf\"\nwindow = 9\n"),
        "s.toml:10: workload[0].generator.window: unknown key; did you mean \"windows\"?"
    );
}

#[test]
fn endless_workload_needs_an_end() {
    let refused = workload_refusal("[workload.generator]\npattern = \"zipf\"\n");
    assert_eq!(
        refused,
        "s.toml:8: workload[0].generator: this workload never ends; give generator.windows, \
         stop_s, or the scenario's duration_s"
    );
    let service = workload_refusal("[workload.service]\npreset = \"redis\"\n");
    assert_eq!(
        service,
        "s.toml:8: workload[0].service: a service never ends by itself; give stop_s, or the \
         scenario's duration_s"
    );
    for end in ["windows = 5\n", ""] {
        let stop = if end.is_empty() { "stop_s = 5\n" } else { "" };
        let workload = format!("{stop}[workload.generator]\npattern = \"zipf\"\n{end}");
        assert!(parse(&format!("{HEAD}{MACHINE}[[workload]]\nname = \"w\"\n{workload}")).is_ok());
    }
}

#[test]
fn whole_sections_are_checked_too() {
    let budget = format!("{HEAD}{MACHINE}[budget]\nbandwidth_mbps = 0\n{WORKLOAD}");
    assert_eq!(
        refusal(&budget),
        "s.toml:7: budget.bandwidth_mbps: found 0; allowed: a number from 0.001 to 10000000"
    );
    let costs = format!("{HEAD}{MACHINE}[costs]\nhint_faults_ns = 0\n{WORKLOAD}");
    assert_eq!(
        refusal(&costs),
        "s.toml:7: costs.hint_faults_ns: unknown key; did you mean \"hint_fault_ns\"?"
    );
    assert_eq!(
        refusal(&format!("{HEAD}{MACHINE}[[workloads]]\n")),
        "s.toml:1: workload: missing; write at least one [[workload]]"
    );
    assert_eq!(refusal("name = 1\n"), "s.toml:1: name: found 1; allowed: a text in quotes");
    assert!(refusal("name =").starts_with("s.toml:1: not valid TOML"));
    assert_eq!(
        refusal(&format!("{HEAD}duration_s = 0\n{MACHINE}{WORKLOAD}")),
        "s.toml:3: duration_s: found 0; allowed: a number from 0.001 to 10000000"
    );
}

/// Lines and parts of a scenario, right and wrong.
fn piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        HEAD,
        MACHINE,
        WORKLOAD,
        "duration_s = 1e308\n",
        "[machine]\n",
        "[[machine.tier]]\nname = \"t\"\nload_ns = 1\nread_gbps = 1\n",
        "capacity = \"1MiB\"\n",
        "share = 1e-300\n",
        "fast_share = 100\n",
        "fast = \"1e9TiB\"\n",
        "slow = 0x7fffffffffffffff\n",
        "page_size = \"64KiB\"\n",
        "[workload.generator]\n",
        "pattern = \"phase-change\"\n",
        "footprint = 4096\n",
        "order = 9\n",
        "hot_fraction = 0.5\n",
        "change_windows = [3, 1]\n",
        "windows = 4294967295\n",
        "stop_s = inf\n",
        "\u{e9} = 1\n",
        "\"",
        "[",
    ])
}

proptest! {
    #[test]
    fn any_text_parses_or_names_a_line(
        pieces in prop::collection::vec(piece(), 0..12),
    ) {
        let text: String = pieces.concat();
        match Scenario::parse("s.toml", &text, Path::new("/base")) {
            Ok(scenario) => {
                let machine = scenario.resolve(Bytes(1 << 30));
                prop_assert!(machine.tiers.iter().all(|t| t.capacity >= machine.page_size));
            }
            Err(error) => prop_assert!((1..=text.lines().count() + 1).contains(&error.line)),
        }
    }
}

#[test]
fn likely_slips_are_refused_with_meaning() {
    let fast = |number: &str| {
        machine_refusal(&format!("[machine]\npreset = \"dram-cxl\"\nfast_share = {number}\n"))
    };
    assert_eq!(
        fast("33"),
        "s.toml:5: machine.fast_share: found 33; allowed: a number from 0 to 2; did you mean 0.33?"
    );
    assert!(fast("-0.33").ends_with("; did you mean 0.33?"), "{}", fast("-0.33"));
    assert!(fast("\"33%\"").ends_with("; did you mean 0.33?"), "{}", fast("\"33%\""));
    for number in ["nan", "inf", "1e300", "-inf"] {
        assert!(fast(number).ends_with("allowed: a number from 0 to 2"), "{}", fast(number));
    }
    let floor = workload_refusal("trace = \"a.twt\"\nfloor = \"70%\"\n");
    assert!(floor.ends_with("or \"none\"; did you mean 0.7?"), "{floor}");
    let slo = workload_refusal("trace = \"a.twt\"\nslo_ms = \"20ms\"\n");
    assert!(slo.ends_with("; did you mean 20?"), "{slo}");
    let ratio = workload_refusal("[workload.generator]\npattern = \"zipf\"\nwrite_ratio = 5\n");
    assert!(ratio.ends_with("; did you mean 0.05?"), "{ratio}");
}

#[test]
fn keys_that_would_be_ignored_are_refused() {
    let slo = workload_refusal("trace = \"a.twt\"\nslo_ms = 20\n");
    assert!(slo.starts_with("s.toml:9: workload[0].slo_ms: a best-effort tenant"), "{slo}");
    assert!(slo.contains("write class = \"latency-critical\" beside it"), "{slo}");
    let critical = "class = \"latency-critical\"\nslo_ms = 20\n";
    parse(&format!("{HEAD}{MACHINE}{WORKLOAD}{critical}")).unwrap();

    let generator = |keys: &str| {
        workload_refusal(&format!(
            "[workload.generator]\nwindows = 9\nfootprint = \"8MiB\"\n{keys}"
        ))
    };
    let exponent = generator("pattern = \"uniform\"\nzipf_exponent = 0.9\n");
    assert!(
        exponent.contains("zipf_exponent: the pattern \"uniform\" does not read it, only zipf")
    );
    let record = generator("pattern = \"zipf\"\nrecord_bytes = 100\n");
    assert!(record.contains("record_bytes: the pattern \"zipf\" does not read it"), "{record}");
    let merged = workload_refusal("merge = 2\n[workload.generator]\npattern = \"zipf\"\n");
    assert!(merged.contains("merge: it joins a trace's windows"), "{merged}");

    let service = "[workload.service]\npreset = \"redis\"\n";
    let loops = workload_refusal(&format!("loops = 2\n{service}"));
    assert!(loops.contains("workload[0].loops: a service does not read it"), "{loops}");
    let own = "slo_ms = 20\n[workload.service]\nmax_per_second = 1\nfootprint = \"8MiB\"\n";
    let item = workload_refusal(&format!("{own}layout = \"document\"\nitem_bytes = 100\n"));
    assert!(item.contains("item_bytes: only the layout \"key-value\" reads it"), "{item}");
}
