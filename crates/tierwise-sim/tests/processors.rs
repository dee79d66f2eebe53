//! Machines with a limited number of CPUs, measured watermarks, and policies that start late.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::time::Duration;

use common::{PAGE, machine, scenario, workload};
use tierwise_core::migrate::MigrationPlan;
use tierwise_core::observe::{DamonAttrs, Observation};
use tierwise_core::page::ScanCost;
use tierwise_core::recipe::Recipe;
use tierwise_core::topology::Watermarks;
use tierwise_core::units::{Bytes, Pages, Timestamp};
use tierwise_core::world::World;
use tierwise_sim::costs::Costs;
use tierwise_sim::host::{Schedule, SimulatedHost};
use tierwise_sim::machine::Machine;
use tierwise_sim::requests::arrival::Arrivals;
use tierwise_sim::requests::mix::{Mix, Popularity, RequestKind, UnitGroup};
use tierwise_sim::requests::tenant::RequestService;
use tierwise_sim::result::{PolicyResult, RunOutput};
use tierwise_sim::run::{Prepared, RunOptions, run};
use tierwise_sim::scenario::{Scenario, WorkloadSpec};
use tierwise_sim::service::RunningService;
use tierwise_sim::windows::Windows;
use tierwise_sim::workload::{Workload, WorkloadKind};
use tierwise_trace::generate::GeneratorSpec;

const FAST: u64 = 600;
const RESIDENT: u64 = 2000;

fn output(machine: Machine, policy: &str, options: &RunOptions) -> RunOutput {
    let spec =
        GeneratorSpec { footprint_pages: RESIDENT, windows: Some(40), ..GeneratorSpec::default() };
    // Long enough for several scans of multi-clock, which come once a second.
    let one = WorkloadSpec { dilation: 20, ..workload("one", "zipf", spec) };
    let prepared = Prepared::load(scenario(machine, vec![one])).unwrap();
    run(&prepared, &Recipe::named(policy).unwrap(), options, &mut |_| ()).unwrap()
}

fn result(cpus: Option<u32>, policy: &str) -> PolicyResult {
    let machine = Machine { cpus, ..machine(FAST, 2 * RESIDENT) };
    output(machine, policy, &RunOptions::default()).result
}

#[test]
fn one_cpu_pays_for_background_work() {
    let (one, two, many) = (
        result(Some(1), "multi-clock"),
        result(Some(2), "multi-clock"),
        result(None, "multi-clock"),
    );
    assert_eq!(two, many, "a second CPU does the work beside the program");
    let [one, two] = [&one, &two].map(|result| {
        let tenant = &result.tenants[0];
        (tenant.seconds, result.overhead_seconds - tenant.overhead_seconds)
    });
    assert!(two.1 > 0.0, "it moves pages in the background");
    assert!(one.0 > two.0 + one.1 / 2.0, "{one:?} {two:?}");
}

/// Two programs on two CPUs, of which the first has one for itself: background work delays the
/// second only.
#[test]
fn own_cpu_does_no_background_work() {
    let spec =
        GeneratorSpec { footprint_pages: RESIDENT, windows: Some(40), ..GeneratorSpec::default() };
    let seconds = |own_cpus: bool| {
        let named = |name, own_cpus| WorkloadSpec {
            dilation: 20,
            own_cpus,
            ..workload(name, "zipf", spec.clone())
        };
        let workloads = vec![named("first", own_cpus), named("second", false)];
        let machine = Machine { cpus: Some(2), ..machine(FAST, 4 * RESIDENT) };
        let prepared = Prepared::load(scenario(machine, workloads)).unwrap();
        let recipe = Recipe::named("multi-clock").unwrap();
        let result = run(&prepared, &recipe, &RunOptions::default(), &mut |_| ()).unwrap().result;
        [result.tenants[0].seconds, result.tenants[1].seconds]
    };
    let (shared, own) = (seconds(false), seconds(true));
    assert!(own[0] < shared[0], "{own:?} {shared:?}");
    assert!(own[1] > shared[1], "all of the work is the second's: {own:?} {shared:?}");
}

/// The time with all memory fast is that of the same CPUs.
#[test]
fn threads_that_take_turns_lose_nothing() {
    let spec =
        GeneratorSpec { footprint_pages: RESIDENT, windows: Some(4), ..GeneratorSpec::default() };
    let one = WorkloadSpec { threads: 4, ..workload("one", "zipf", spec) };
    let machine = Machine { cpus: Some(1), ..machine(2 * RESIDENT, 2 * RESIDENT) };
    let prepared = Prepared::load(scenario(machine, vec![one])).unwrap();
    let recipe = Recipe::named("static").unwrap();
    let result = run(&prepared, &recipe, &RunOptions::default(), &mut |_| ()).unwrap().result;
    assert!(result.slowdown < 1.1, "{result:?}");
}

/// CPU nanoseconds that a service reports per request, and its slowest 99th percentile, beside
/// scans of its page.
fn served_beside_scans(cpus: Option<u32>) -> (f64, Duration) {
    let group = UnitGroup {
        name: "items",
        touches: 1.0,
        loads: 10.0,
        stores: 0.0,
        prefetched: 0.0,
        units: Popularity::Even { first: 0, count: 1 },
    };
    let kind = RequestKind { name: "get", share: 1.0, cpu_ns: 1000.0, groups: vec![group] };
    let service = RequestService {
        arrivals: Arrivals::Poisson { per_second: 10_000.0 },
        mix: Mix { units: 1, kinds: vec![kind], cached: Vec::new() },
        servers: 1,
        slo: Duration::from_millis(1),
        seed: 3,
    };
    let machine = Machine { cpus, ..machine(FAST, RESIDENT) };
    let tiers = machine.tiers.len();
    let mut workload = Workload::new(Windows::service(1, 0), tiers, 9);
    let running = RunningService::new(&service, 0, tiers, 1.0).unwrap();
    workload.kind = WorkloadKind::Service(Box::new(running));
    let schedule = Schedule {
        start: 0,
        after: None,
        stop: None,
        memory_level_parallelism: 1.0,
        own_cpus: false,
    };
    // A scan takes as long as some sixty requests.
    let costs = Costs { scan_pte_ns: 1e5, ..Costs::FREE };
    let mut host = SimulatedHost::new(machine, costs, vec![(workload, schedule)], None, 9);
    let scan = ScanCost { scanned: 1, ..ScanCost::default() };
    let plan = MigrationPlan { scan, ..MigrationPlan::default() };
    let (mut busy, mut requests, mut slowest) = (Duration::ZERO, 0, Duration::ZERO);
    let mut obs = Observation::default();
    for milliseconds in (10..=3000).step_by(10) {
        host.migrate(&plan, &mut Vec::new()).unwrap();
        host.wait_until(Some(Timestamp(milliseconds * 1_000_000))).unwrap();
        host.observe(&mut obs).unwrap();
        busy += obs.tenants[0].busy;
        requests += obs.tenants[0].operations;
        slowest = slowest.max(obs.tenants[0].p99.unwrap_or_default());
    }
    (busy.as_nanos() as f64 / requests as f64, slowest)
}

/// As `cpu.stat` of a control group: requests wait for a CPU that a scan has, and use none then.
#[test]
fn waiting_for_scans_is_no_cpu_time() {
    let (shared, idle) = (served_beside_scans(Some(1)), served_beside_scans(Some(2)));
    assert!((shared.0 - idle.0).abs() < 1.0, "{shared:?} {idle:?}");
    assert!(shared.1 > idle.1, "{shared:?} {idle:?}");
}

#[test]
fn nothing_moves_without_background_work() {
    assert_eq!(result(Some(1), "static"), result(None, "static"));
}

/// CPU seconds of multi-clock's own work, and the seconds of the run, with everything fast.
fn scanned(costs: Costs) -> (f64, f64) {
    watched(costs, None)
}

/// The same with DAMON's checks.
fn watched(costs: Costs, damon: Option<DamonAttrs>) -> (f64, f64) {
    let spec =
        GeneratorSpec { footprint_pages: RESIDENT, windows: Some(40), ..GeneratorSpec::default() };
    let one = WorkloadSpec { dilation: 20, ..workload("one", "zipf", spec) };
    let machine = Machine { damon, ..machine(2 * RESIDENT, 2 * RESIDENT) };
    let plain = scenario(machine, vec![one]);
    let prepared = Prepared::load(Scenario { costs, ..plain }).unwrap();
    let recipe = Recipe::named("multi-clock").unwrap();
    let options = RunOptions { timeline: Some(Duration::from_secs(1)), ..RunOptions::default() };
    let output = run(&prepared, &recipe, &options, &mut |_| ()).unwrap();
    assert_eq!(output.result.promotions, 0);
    (output.result.overhead_seconds, output.timeline.last().unwrap().time_seconds)
}

#[test]
fn each_scan_wakes_a_thread_per_tier() {
    let (overhead, seconds) = scanned(Costs { wake_ns: 1e6, ..Costs::FREE });
    let scans = overhead / 1e-3 / 2.0;
    assert!((scans - seconds).abs() <= 1.5, "{scans} scans in {seconds} s");
}

#[test]
fn scanned_pages_leave_and_join_lists() {
    let (overhead, seconds) = scanned(Costs { list_page_ns: 1e4, ..Costs::FREE });
    let pages = overhead / 1e-5;
    // 2000 pages are on the fast tier's two lists, of which a scan takes 1024 each.
    let bounds = 0.9 * 1024.0 * (seconds - 1.0)..=2048.0 * (seconds + 1.0);
    assert!(bounds.contains(&pages), "{pages} pages in {seconds} s");
    assert_eq!(scanned(Costs::FREE).0, 0.0);
}

/// A kdamond whose intervals are those of the daemon in the lab: 20 checks in 200 ms.
fn lab_damon() -> Option<DamonAttrs> {
    let [sampling, aggregation] = [10, 200].map(Duration::from_millis);
    Some(DamonAttrs { sampling, aggregation, ..DamonAttrs::default() })
}

#[test]
fn daemon_pays_for_each_round() {
    // Its rounds are those of multi-clock, once a second.
    let (overhead, seconds) = watched(Costs { daemon_round_ns: 1e6, ..Costs::FREE }, lab_damon());
    let rounds = overhead / 1e-3;
    assert!((rounds - seconds).abs() <= 2.5, "{rounds} rounds in {seconds} s");
    let by_block = watched(Costs { daemon_block_ns: 1e3, ..Costs::FREE }, lab_damon()).0;
    let blocks = by_block / 1e-6 / rounds;
    // All memory is touched soon after the first round.
    let bounds = 0.9 * RESIDENT as f64..=RESIDENT as f64;
    assert!(bounds.contains(&blocks), "{blocks} blocks in a round");
    let start = watched(Costs { daemon_start_ns: 5e6, ..Costs::FREE }, lab_damon()).0;
    assert!((start - 5e-3).abs() < 1e-9, "started once: {start} s");
}

#[test]
fn surveyed_process_rests_afterwards() {
    // A survey takes 25 ms, so the next comes 2.5 s later, in the third round from it on.
    let survey_ns = 25e6;
    let costs = Costs { daemon_process_ns: survey_ns, ..Costs::FREE };
    let (overhead, seconds) = watched(costs, lab_damon());
    let surveys = overhead / survey_ns * 1e9;
    assert!((surveys - seconds / 3.0).abs() <= 1.5, "{surveys} surveys in {seconds} s");
}

#[test]
fn kdamond_wakes_every_sampling_interval() {
    let (overhead, seconds) = watched(Costs { damon_wake_ns: 1e4, ..Costs::FREE }, lab_damon());
    let wakes = overhead / 1e-5;
    // The run ends up to a second after the last point of its timeline, and its last report is up
    // to a second old.
    let bounds = (seconds - 1.0) * 100.0..=(seconds + 1.0) * 100.0;
    assert!(bounds.contains(&wakes), "{wakes} wake-ups in {seconds} s");
}

#[test]
fn kdamond_checks_a_page_of_each_region() {
    let of = |costs: Costs| watched(costs, lab_damon()).0;
    let checks = of(Costs { damon_check_ns: 1e3, ..Costs::FREE }) / 1e-6;
    let regions = of(Costs { damon_region_ns: 1e3, ..Costs::FREE }) / 1e-6;
    assert!(regions > 0.0);
    assert!((checks / regions - 20.0).abs() < 1e-6, "{checks} checks, {regions} regions");
}

#[test]
fn daemon_costs_nothing_without_damon() {
    let costs = Costs { daemon_round_ns: 1e6, daemon_start_ns: 1e9, ..Costs::FREE };
    assert_eq!(scanned(costs).0, 0.0);
}

#[test]
fn promoted_pages_count_if_accessed_again() {
    let result = result(None, "multi-clock");
    let again = result.tenants[0].reaccessed.unwrap();
    // All pages of zipf's hot part are accessed all the time.
    assert!(result.promotions > 0 && again <= result.promotions, "{result:?}");
    assert!(again * 10 >= result.promotions * 9, "{again} of {}", result.promotions);
    assert_eq!(self::result(None, "static").tenants[0].reaccessed, Some(0));
}

#[test]
fn measured_watermarks_replace_derived_ones() {
    let marks = [40, 50, 60, 70].map(|pages: u64| Bytes(pages * PAGE));
    let mut machine = machine(FAST, 2 * RESIDENT);
    machine.tiers[0].watermarks = Some(marks);
    let [min, low, high, promo] = [40, 50, 60, 70].map(Pages);
    assert_eq!(machine.topology().tiers[0].watermarks, Watermarks { min, low, high, promo });
    // First touch leaves the low watermark.
    let result = output(machine, "static", &RunOptions::default()).result;
    assert_eq!(result.tenants[0].usage_bytes["DRAM"], (FAST - 50) * PAGE);
}

/// A program under kernel-tiering on a machine whose fast tier half belongs to others' page cache.
fn beside_page_cache(policy: &str) -> PolicyResult {
    let cache = GeneratorSpec {
        footprint_pages: FAST / 2,
        file_fraction: 1.0,
        windows: Some(1),
        ..GeneratorSpec::default()
    };
    let cache = WorkloadSpec { leaves_memory: true, ..workload("cache", "sequential", cache) };
    let one =
        GeneratorSpec { footprint_pages: RESIDENT, windows: Some(40), ..GeneratorSpec::default() };
    let one = WorkloadSpec {
        dilation: 20,
        after: Some("cache".to_owned()),
        ..workload("one", "zipf", one)
    };
    let marks = [40, 50, 60, 70].map(|pages: u64| Bytes(pages * PAGE));
    let mut machine = machine(FAST, 2 * RESIDENT);
    machine.tiers[0].watermarks = Some(marks);
    let prepared = Prepared::load(scenario(machine, vec![cache, one])).unwrap();
    let options = RunOptions { check: true, policy_at_mark: true, ..RunOptions::default() };
    run(&prepared, &Recipe::named(policy).unwrap(), &options, &mut |_| ()).unwrap().result
}

#[test]
fn memory_left_behind_keeps_its_place() {
    let result = beside_page_cache("static");
    let usage = |i: usize| result.tenants[i].usage_bytes["DRAM"];
    assert_eq!([usage(0), usage(1)], [FAST / 2 * PAGE, (FAST / 2 - 50) * PAGE]);
    // What left it is no part of the result.
    assert_eq!(result.slowdown, result.tenants[1].slowdown);
}

/// The kernel demotes others' idle page cache as it makes room for promotions.
#[test]
fn kernel_tiering_takes_others_page_cache() {
    let result = beside_page_cache("kernel-tiering");
    let usage = |i: usize| result.tenants[i].usage_bytes["DRAM"];
    assert!(result.promotions > 0, "{result:?}");
    assert!(usage(0) < FAST / 8 * PAGE && usage(1) > FAST / 2 * PAGE, "{result:?}");
}

/// Pages of the fast tier that the program holds in the end, beside this much page cache.
fn held_beside(page_cache: u64, policy: &str) -> u64 {
    let mut machine = machine(FAST, 2 * RESIDENT);
    machine.tiers[0].watermarks = Some([40, 50, 60, 70].map(|pages: u64| Bytes(pages * PAGE)));
    machine.tiers[0].page_cache = Bytes(page_cache * PAGE);
    let options = RunOptions { check: true, ..RunOptions::default() };
    output(machine, policy, &options).result.tenants[0].usage_bytes["DRAM"] / PAGE
}

/// Where nothing is demoted, kswapd drops the page cache, and promotions find its room.
#[test]
fn promotions_take_dropped_page_cache() {
    let cache = 200;
    assert_eq!(held_beside(cache, "static"), FAST - cache - 50, "new memory goes to the slow tier");
    assert_eq!(held_beside(0, "static"), FAST - 50);
    let held = held_beside(cache, "multi-clock");
    assert!(held > FAST - 100, "{held} pages");
}

#[test]
fn policy_waits_for_the_measured_part() {
    let late = RunOptions { policy_at_mark: true, ..RunOptions::default() };
    let [early, late] = [RunOptions::default(), late]
        .map(|options| output(machine(FAST, 2 * RESIDENT), "multi-clock", &options).result);
    assert!(late.promotions > 0);
    // What was scanned and moved while the memory was filled is missing.
    assert!(late.overhead_seconds <= early.overhead_seconds);
    let still = RunOptions { policy_at_mark: true, ..RunOptions::default() };
    let still = output(machine(FAST, 2 * RESIDENT), "static", &still).result;
    let plain = output(machine(FAST, 2 * RESIDENT), "static", &RunOptions::default()).result;
    assert_eq!(still, plain, "first touch does not depend on it");
}
