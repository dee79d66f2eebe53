//! Samples of a workload whose hot pages are known: each access monitoring source against the
//! truth.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use common::{machine, scenario, workload};
use tierwise_core::engine::{Engine, EngineConfig};
use tierwise_core::migrate::{MigrationPlan, PageRange};
use tierwise_core::observe::{DamonAttrs, Observation, Signals};
use tierwise_core::recipe::Recipe;
use tierwise_core::units::{PageId, TenantId, TierId, Timestamp};
use tierwise_core::world::World;
use tierwise_driver::Driver;
use tierwise_sim::bound::Bounds;
use tierwise_sim::costs::Costs;
use tierwise_sim::host::{Schedule, SimulatedHost};
use tierwise_sim::machine::Machine;
use tierwise_sim::rescale::PageOrder;
use tierwise_sim::run::Prepared;
use tierwise_sim::windows::{LoadedTrace, MeasuredMarks, Part, Shape, Windows};
use tierwise_sim::workload::Workload;
use tierwise_trace::{
    Allocation, CacheModel, Header, ObjectHeat, PageAccess, PageBacking, TraceError, Window,
    WindowSource,
};

const PAGES: u32 = 1000;
/// Pages 100 to 199 are hot: each has a thousand misses per window, the others have one. Their
/// objects are hot, too.
const HOT: std::ops::Range<u32> = 100..200;

/// Objects of the program, and the hotness of those of a hot page.
const OBJECTS: u64 = 10_000;
const HOTNESS: u32 = 40;

/// Windows that are all alike.
struct Steady {
    header: Header,
    left: u32,
    /// One of so many pages is accessed.
    every: u32,
}

fn steady(windows: u32) -> Steady {
    let cache = CacheModel { size_bytes: 0, ways: 1, line_bytes: 64 };
    let header = Header {
        command: vec!["steady".to_owned()],
        host: "a test".to_owned(),
        page_size: 4096,
        window_instructions: 1,
        cache,
    };
    Steady { header, left: windows, every: 1 }
}

impl WindowSource for Steady {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_window(&mut self, window: &mut Window) -> Result<bool, TraceError> {
        window.clear();
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        // 65 ms of CPU time beside 7 ms of misses: a cold page is accessed once in 72 ms.
        window.instructions = 150_000_000;
        for page in 0..PAGES {
            let loads = if HOT.contains(&page) { 1000 } else { 1 };
            let kind = PageBacking::Anon;
            window.allocations.push(Allocation {
                page,
                vpn: u64::from(page),
                kind,
                order: 0,
                thread: 0,
            });
            if page % self.every > 0 {
                continue;
            }
            window.accesses.push(PageAccess {
                page,
                loads,
                stores: 0,
                load_misses: loads,
                store_misses: 0,
                supervised: 0,
                thread: 0,
            });
        }
        window.objects = OBJECTS;
        // In sixteenths.
        let hotness = |page| if HOT.contains(&page) { 16 * HOTNESS } else { 8 };
        let heat = |page| ObjectHeat { page, hotness: hotness(page) };
        window.object_heat.extend((0..PAGES).map(heat));
        Ok(true)
    }

    fn rewind(&mut self) -> Result<(), TraceError> {
        Ok(())
    }
}

/// One window.
struct Single(Header, Option<Window>);

impl WindowSource for Single {
    fn header(&self) -> &Header {
        &self.0
    }

    fn next_window(&mut self, window: &mut Window) -> Result<bool, TraceError> {
        let next = self.1.take();
        let found = next.is_some();
        *window = next.unwrap_or_default();
        Ok(found)
    }

    fn rewind(&mut self) -> Result<(), TraceError> {
        Ok(())
    }
}

/// A host that runs the steady program with all memory fast and reports these signals.
fn host(signals: Signals) -> SimulatedHost {
    host_on(machine(4000, 4000), signals)
}

fn host_on(machine: Machine, signals: Signals) -> SimulatedHost {
    let program =
        LoadedTrace::read(&mut steady(400), MeasuredMarks::default(), Shape::default()).unwrap();
    host_of(program, machine, signals)
}

fn host_of(program: LoadedTrace, machine: Machine, signals: Signals) -> SimulatedHost {
    let bounds = program.bounds(&Bounds::of(&machine, 1.0));
    let part = Part { program: Arc::new(program), measure_from: 0, loops: 1, bounds };
    let windows = Windows::of(Arc::new(part), 1);
    let workload = Workload::new(windows, machine.tiers.len(), 9);
    let schedule = Schedule {
        start: 0,
        after: None,
        stop: None,
        memory_level_parallelism: 1.0,
        own_cpus: false,
    };
    let costs = Costs::default().for_granules(1 << machine.granule_order);
    let mut host = SimulatedHost::new(machine, costs, vec![(workload, schedule)], None, 9);
    host.set_check(true);
    let orders = MigrationPlan { signals, ..MigrationPlan::default() };
    host.migrate(&orders, &mut Vec::new()).unwrap();
    host
}

/// Calls `each` with every observation until `seconds` of virtual time.
fn observe(host: &mut SimulatedHost, seconds: f64, mut each: impl FnMut(&Observation, Timestamp)) {
    let mut obs = Observation::default();
    while host.now().as_secs_f64() < seconds {
        let next = Timestamp(host.now().0 + 100_000_000);
        assert!(host.wait_until(Some(next)).unwrap(), "the workload ended before the test did");
        host.observe(&mut obs).unwrap();
        each(&obs, host.now());
    }
}

#[test]
fn sparse_tenants_have_fewer_samples() {
    let signals = Signals { sample_period: 100, ..Signals::default() };
    let counted = |sparse: Vec<(TenantId, u32)>| {
        let mut host = host(signals);
        let plan = MigrationPlan { signals, sparse, ..MigrationPlan::default() };
        host.migrate(&plan, &mut Vec::new()).unwrap();
        let mut samples = 0;
        observe(&mut host, 2.0, |obs, _| samples += obs.samples.len());
        samples as f64
    };
    let all = counted(Vec::new());
    let few = counted(vec![(TenantId(0), 1_000)]);
    // The first of 20 steps of the second host may have begun at the shorter period.
    assert!((few / all - 0.1).abs() < 0.05, "{few} of {all}");
    assert_eq!(counted(vec![(TenantId(1), 1_000)]), all, "another tenant's");
}

#[test]
fn samples_are_one_in_period_misses() {
    let period = 100;
    let mut host = host(Signals { sample_period: period, ..Signals::default() });
    let mut samples = vec![0u64; PAGES as usize];
    observe(&mut host, 2.0, |obs, _| {
        obs.samples.iter().for_each(|s| samples[s.page.index()] += 1);
    });
    let misses: f64 = host.stats().accounts[0].total.misses.iter().sum();
    let all: u64 = samples.iter().sum();
    assert!((all as f64 - misses / f64::from(period)).abs() <= 1.0, "{all} of {misses}");
    // 100 hot pages of 1000 misses, 900 others of one.
    let hot: u64 = HOT.map(|p| samples[p as usize]).sum();
    let expected = all as f64 * 100_000.0 / 100_900.0;
    assert!((hot as f64 / expected - 1.0).abs() < 0.002, "{hot} against {expected}");
    let (low, high) =
        HOT.map(|p| samples[p as usize]).fold((u64::MAX, 0), |(l, h), n| (l.min(n), h.max(n)));
    assert!(high as f64 <= low as f64 * 1.05, "hot pages are sampled alike: {low} to {high}");
}

/// Kernels read reference bits a thousand times a second or once: an access is in one report.
#[test]
fn reports_of_reference_bits_add_up() {
    let bits = || host(Signals { reference_bits: true, ..Signals::default() });
    let (mut often, mut seldom) = (bits(), bits());
    let referenced = |host: &mut SimulatedHost, now: u64, pages: &mut BTreeSet<u32>| {
        let mut obs = Observation::default();
        assert!(host.wait_until(Some(Timestamp(now))).unwrap());
        host.observe(&mut obs).unwrap();
        obs.referenced.for_each(|page| {
            pages.insert(page.0);
        });
    };
    for step in 1..=40 {
        let (mut union, mut once) = (BTreeSet::new(), BTreeSet::new());
        for part in 1..=25 {
            // A millisecond each: the hot pages have some accesses, the others one in 72.
            referenced(&mut often, (step - 1) * 25_000_000 + part * 1_000_000, &mut union);
        }
        referenced(&mut seldom, step * 25_000_000, &mut once);
        assert_eq!(union, once, "step {step}");
        assert!(HOT.into_iter().all(|page| once.contains(&page)));
        // A third of the others: none is reported again and again.
        let cold = once.len() - HOT.len();
        assert!((200..450).contains(&cold), "{cold}");
    }
}

#[test]
fn damon_regions_find_the_hot_range() {
    let mut host = host(Signals { regions: Some(DamonAttrs::default()), ..Signals::default() });
    let mut last = Vec::new();
    observe(&mut host, 2.5, |obs, _| {
        if !obs.regions.is_empty() {
            last.clone_from(&obs.regions);
        }
    });
    assert_eq!(last.iter().map(|r| r.pages).sum::<u32>(), PAGES, "regions cover every page once");
    let hot = |page: u32| {
        let r = last.iter().find(|r| (r.first.0..r.first.0 + r.pages).contains(&page)).unwrap();
        // A hot page is accessed in every sampling interval of 5 ms, a cold one in one of fourteen.
        r.nr_accesses >= 10
    };
    let found = (0..PAGES).filter(|&p| hot(p) == HOT.contains(&p)).count();
    assert!(found >= 950, "{found} of {PAGES} pages classified right: {last:?}");
}

/// As the live daemon has them: ticks instead of misses, and bits only when an interval is over.
#[test]
fn damon_stands_for_bits_and_samples() {
    let attrs = DamonAttrs::default();
    let damon = Machine { damon: Some(attrs), ..machine(4000, 4000) };
    let signals = Signals { reference_bits: true, sample_period: 100, ..Signals::default() };
    let mut host = host_on(damon, signals);
    let (mut reports, mut ticks) = (0, vec![0; PAGES as usize]);
    let mut obs = Observation::default();
    for step in 1..=50 {
        assert!(host.wait_until(Some(Timestamp(step * 50_000_000))).unwrap());
        host.observe(&mut obs).unwrap();
        // Every second observation ends an aggregation interval of 100 ms, which the next reports.
        assert_eq!(obs.bits_unread, step % 2 == 0 || step == 1, "step {step}");
        assert_eq!(obs.samples_are_ticks, !obs.bits_unread);
        assert_eq!(obs.samples.is_empty(), obs.bits_unread);
        let misses: u64 = obs.tenants[0].misses.iter().sum();
        assert_eq!(misses, obs.samples.len() as u64, "the daemon counts ticks only");
        assert_eq!(obs.tenants[0].instructions, 0, "the daemon does not count instructions");
        // The regions adapt in the first second.
        if !obs.bits_unread && step > 20 {
            reports += 1;
            assert_eq!(obs.checks, attrs.max_accesses());
            obs.samples.iter().for_each(|sample| ticks[sample.page.index()] += 1);
            let mut sampled = BTreeSet::new();
            sampled.extend(obs.samples.iter().map(|sample| sample.page));
            let mut referenced = BTreeSet::new();
            obs.referenced.for_each(|page| {
                referenced.insert(page);
            });
            assert_eq!(sampled, referenced);
        }
    }
    assert_eq!(reports, 15);
    // A hot page is accessed in every sampling interval of 5 ms, a cold one in one of fourteen.
    let mean = |pages: &mut dyn Iterator<Item = u32>| {
        let counts: Vec<f64> = pages.map(|p| f64::from(ticks[p as usize])).collect();
        counts.iter().sum::<f64>() / counts.len() as f64 / f64::from(reports)
    };
    let (hot, cold) = (mean(&mut HOT.clone()), mean(&mut (300..PAGES)));
    assert!(hot > 15.0 && cold < 4.0, "{hot} ticks of a hot page, {cold} of a cold one");
}

/// A daemon's survey finds blocks by address, in whatever order a program touched them first. In
/// this program's only window each page has a lower address than the one before.
#[test]
fn daemon_reports_memory_by_address() {
    let kind = PageBacking::Anon;
    let at = |page: u32| Allocation { page, vpn: 90 - u64::from(page), kind, order: 0, thread: 0 };
    let reported = |damon: Option<DamonAttrs>, order| {
        let allocations = (0..4).map(at).collect();
        let window = Window { instructions: 1_000_000_000, allocations, ..Window::default() };
        let header = steady(0).header;
        let shape = Shape { order, granule_order: 3, ..Shape::default() };
        let program =
            LoadedTrace::read(&mut Single(header, Some(window)), MeasuredMarks::default(), shape)
                .unwrap();
        let machine = Machine { damon, granule_order: 3, ..machine(4000, 4000) };
        let (mut host, mut pages) = (host_of(program, machine, Signals::default()), Vec::new());
        observe(&mut host, 0.1, |obs, _| {
            for allocated in &obs.allocated {
                assert_eq!(allocated.attributes.order, 3, "every page is a granule");
                pages.extend(allocated.pages());
            }
        });
        pages.iter().map(|page| page.0).collect::<Vec<_>>()
    };
    assert_eq!(reported(None, PageOrder::Allocation), [0, 1, 2, 3]);
    assert_eq!(reported(Some(DamonAttrs::default()), PageOrder::Address), [3, 2, 1, 0]);
}

/// A policy that waits for bits names no time for its next round.
#[test]
fn daemon_waits_a_second_at_most() {
    let signals = Signals { reference_bits: true, ..Signals::default() };
    let damon = Machine { damon: Some(DamonAttrs::default()), ..machine(4000, 4000) };
    let mut host = host_on(damon, signals);
    let before = host.now();
    assert!(host.wait_until(None).unwrap(), "the workload goes on");
    let waited = host.now().since(before);
    assert!(waited <= Duration::from_secs(1), "{waited:?}");
}

/// A check is of one base page: a granule of 64 pages that is accessed once in a sampling interval
/// is found in one check of 64.
#[test]
fn damon_checks_one_base_page() {
    let found = |granule_order| {
        let damon = Machine {
            damon: Some(DamonAttrs::default()),
            granule_order,
            ..machine(4000 << granule_order, 4000 << granule_order)
        };
        let signals = Signals { sample_period: 100, ..Signals::default() };
        let (mut host, mut samples) = (host_on(damon, signals), 0);
        observe(&mut host, 2.0, |obs, _| {
            samples += obs.samples.iter().filter(|s| !HOT.contains(&s.page.0)).count();
        });
        samples
    };
    // At least one tick is given for each page of a region that was found once.
    assert!(found(6) * 2 < found(0), "{} against {}", found(6), found(0));
}

/// A page that was accessed a thousand times has one bit: a granule of eight pages, of which one is
/// accessed, is found in one check of eight.
#[test]
fn damon_finds_only_touched_pages() {
    let (granule_order, frames) = (3, 8);
    let ticks = |every| {
        let machine =
            Machine { damon: Some(DamonAttrs::default()), granule_order, ..machine(4000, 4000) };
        let shape = Shape { units: Some(PAGES / frames), granule_order, ..Shape::default() };
        let mut source = Steady { every, ..steady(400) };
        let program = LoadedTrace::read(&mut source, MeasuredMarks::default(), shape).unwrap();
        let signals = Signals { sample_period: 100, ..Signals::default() };
        let (mut hot, mut reports) = (0, 0);
        let middle = HOT.start / frames + 1..HOT.end / frames - 1;
        observe(&mut host_of(program, machine, signals), 3.0, |obs, _| {
            reports += u32::from(!obs.bits_unread);
            hot += obs.samples.iter().filter(|s| middle.contains(&s.page.0)).count();
        });
        hot as f64 / f64::from(reports) / f64::from(middle.end - middle.start)
    };
    let (all, one) = (ticks(1), ticks(frames));
    assert!(all > 15.0, "{all} of 20 checks find a granule of which all pages are accessed");
    let expected = 20.0 / f64::from(frames);
    assert!((0.7 * expected..1.5 * expected).contains(&one), "{one} ticks of a granule");
}

/// Policies weigh moves by the cost of a base page, however many are simulated as one.
#[test]
fn granules_move_at_their_pages_cost() {
    let of_page = |granule_order| {
        let granules =
            Machine { granule_order, ..machine(4000 << granule_order, 4000 << granule_order) };
        let (mut host, mut cost) = (host_on(granules, Signals::default()), None);
        observe(&mut host, 0.1, |obs, _| cost = obs.move_cost);
        cost.unwrap().as_nanos()
    };
    let (page, granule) = (of_page(0), of_page(6));
    assert!(granule.abs_diff(page) * 10 < page, "{granule} ns of a granule's page, not {page}");
}

#[test]
fn poisoned_page_faults_once() {
    let mut host = host(Signals { hint_faults: true, ..Signals::default() });
    let mut obs = Observation::default();
    host.wait_until(Some(Timestamp(1_000_000))).unwrap();
    host.observe(&mut obs).unwrap();
    let poison = PageRange { first: PageId(0), count: PAGES };
    let signals = Signals { hint_faults: true, ..Signals::default() };
    let plan = MigrationPlan { poison: vec![poison], signals, ..MigrationPlan::default() };
    host.migrate(&plan, &mut Vec::new()).unwrap();
    let poisoned_at = host.now();
    let mut faults = vec![Vec::new(); PAGES as usize];
    observe(&mut host, 0.5, |obs, now| {
        for fault in &obs.hint_faults {
            assert_eq!(fault.poisoned_at, poisoned_at);
            assert!(fault.at >= poisoned_at && fault.at <= now);
            faults[fault.page.index()].push(fault.at.since(poisoned_at));
        }
    });
    assert!(faults.iter().all(|f| f.len() == 1), "each page faults once");
    let mean = |pages: &mut dyn Iterator<Item = u32>| {
        let times: Vec<f64> = pages.map(|p| faults[p as usize][0].as_secs_f64()).collect();
        times.iter().sum::<f64>() / times.len() as f64
    };
    let (hot, cold) = (mean(&mut HOT.clone()), mean(&mut (200..PAGES)));
    // A hot page is accessed a thousand times as often, so it faults a thousand times as soon,
    // except for the step of time.
    assert!(hot * 100.0 < cold, "hot after {hot} s, cold after {cold} s");
}

#[test]
fn exact_counts_add_up() {
    let mut host = host(Signals { exact_counts: true, ..Signals::default() });
    let mut counted = 0;
    observe(&mut host, 1.0, |obs, _| counted += obs.counts.iter().map(|c| c.misses).sum::<u64>());
    let misses: f64 = host.stats().accounts[0].total.misses.iter().sum();
    assert!((counted as f64 - misses).abs() <= f64::from(PAGES), "{counted} of {misses}");
}

/// Nothing else need happen at the end of a window: the sample of the objects ends the wait.
#[test]
fn samples_of_objects_end_waits() {
    let mut host = host(Signals { objects: true, ..Signals::default() });
    let mut obs = Observation::default();
    let mut stalled = Vec::new();
    for _ in 0..3 {
        assert!(host.wait_until(None).unwrap(), "a wait without a deadline goes on to the end");
        host.observe(&mut obs).unwrap();
        assert_eq!(obs.object_samples, 1);
        let hot = obs.object_heat.iter().filter(|heat| heat.hotness == f64::from(HOTNESS));
        assert!(hot.map(|heat| heat.page.0).eq(HOT));
        stalled.push(host.stats().accounts[0].overhead_ns);
    }
    // All objects are new in the first window, none afterwards.
    let marking = OBJECTS as f64 * Costs::default().mark_object_ns;
    assert!((stalled[0] - marking).abs() < 1.0 && stalled[2] == stalled[0], "{stalled:?}");
}

#[test]
fn emt_brings_hot_objects_into_fast_memory() {
    let mut host = host_on(machine(160, 4000), Signals::default());
    let recipe = "name = \"emt\"\nsummary = \"a test\"\nsource = \"a test\"\n[policy]\nalgorithm = \
                  \"emt\"\n";
    let config = EngineConfig::new(Recipe::parse("emt", recipe).unwrap());
    let (topology, capabilities) = (host.topology(), host.capabilities());
    let mut engine = Engine::new(&config, topology, &capabilities, 9).unwrap();
    let mut driver = Driver::default();
    driver.start(&engine, &mut host).unwrap();
    while host.now().as_secs_f64() < 10.0 {
        assert!(driver.round(&mut engine, &mut host).unwrap(), "the program frees its pages");
    }
    let slow = HOT.filter(|&page| engine.pages().tier(PageId(page)) != Some(TierId::FASTEST));
    assert_eq!(slow.count(), 0, "of a hundred hot pages");
    // Pages stay as hot as they are, so none moves twice.
    let account = &host.stats().accounts[0];
    assert!((1..=100).contains(&account.promotions), "{account:?}");
}

/// 4 MiB of anonymous memory touched page by page become two huge pages; they move as wholes.
#[test]
fn dense_ranges_become_huge_pages() {
    let spec = tierwise_trace::generate::GeneratorSpec {
        footprint_pages: 1024,
        accesses_per_window: 5000,
        windows: Some(4),
        ..Default::default()
    };
    let mut spec = workload("huge", "uniform", spec);
    spec.huge_pages = true;
    let prepared = Prepared::load(scenario(machine(2048, 4096), vec![spec])).unwrap();
    let part = prepared.parts().next().unwrap().unwrap();
    let allocations: Vec<_> = part.program.windows.iter().flat_map(|w| &w.allocations).collect();
    assert_eq!(allocations.iter().map(|b| (b.page, b.order)).collect::<Vec<_>>(), [(0, 9), (1, 9)]);
    assert_eq!(prepared.resident_pages(), 1024);
    let accesses: u64 =
        part.program.windows[1].accesses.iter().map(|a| u64::from(a.loads + a.stores)).sum();
    assert_eq!(accesses, 5000, "accesses are kept when pages are joined");
}
