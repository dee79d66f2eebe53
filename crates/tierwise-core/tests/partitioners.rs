//! Properties of every partitioner with floors, for all tenants: floors fit and hold, no tenant has
//! more than its cap, more weight never gets less, and the same inputs give the same shares. The
//! tests of MTAT's partitioner, which learns, are beside its code.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use tierwise_core::config::Document;
use tierwise_core::estimate;
use tierwise_core::migrate::MoveOutcome;
use tierwise_core::observe::{Observation, Signals, TenantReading, TierReading};
use tierwise_core::page::PageTable;
use tierwise_core::partition;
use tierwise_core::policy::PlanContext;
use tierwise_core::registry::BuildContext;
use tierwise_core::share::{Share, Shares};
use tierwise_core::stage::{Estimator, Partitioner, Scope};
use tierwise_core::tenant::{Class, Limit, TenantSpec};
use tierwise_core::units::{Bytes, Hotness, PageId, Pages, TenantId, TierId, Timestamp};

/// Base pages of the fast tier and of the slow one.
const TIERS: [u64; 2] = [10_000, 40_000];

#[derive(Debug, Clone)]
struct Tenant {
    fast: u64,
    slow: u64,
    weight: u32,
    floor: Option<u64>,
    cap: Option<u64>,
}

fn tenant() -> impl Strategy<Value = Tenant> {
    let floor = prop::option::of(0u64..2_000);
    // A cap may be below the floor (Equilibria, section V-B 5).
    let cap = prop::option::of(500u64..9_000);
    (0u64..3_000, 0u64..6_000, 1u32..10_000, floor, cap)
        .prop_map(|(fast, slow, weight, floor, cap)| Tenant { fast, slow, weight, floor, cap })
}

fn spec(tenant: &Tenant) -> TenantSpec {
    let bytes = |pages: u64| Limit::Bytes(Bytes(pages * 4096));
    TenantSpec {
        weight: tenant.weight,
        floors: vec![tenant.floor.map(bytes)],
        caps: vec![tenant.cap.map(bytes)],
        ..TenantSpec::new("tenant")
    }
}

fn partitioned(name: &str, tenants: &[Tenant]) -> Vec<Share> {
    let usage = |t: &Tenant| vec![Pages(t.fast), Pages(t.slow)];
    let readings: Vec<TenantReading> = tenants
        .iter()
        .map(|t| TenantReading { usage: usage(t), running: true, ..TenantReading::default() })
        .collect();
    let specs: Vec<TenantSpec> = tenants.iter().map(spec).collect();
    decided(name, &specs, &vec![readings; 3])
}

/// The shares after decisions a second apart, each with its own readings.
fn decided(name: &str, specs: &[TenantSpec], seconds: &[Vec<TenantReading>]) -> Vec<Share> {
    after(name, specs, seconds).1
}

/// The partitioner after such decisions, and their last shares.
fn after(
    name: &str,
    specs: &[TenantSpec],
    seconds: &[Vec<TenantReading>],
) -> (Box<dyn Partitioner>, Vec<Share>) {
    after_estimates(name, &estimate::NoEstimator, specs, seconds)
}

/// The same with an estimator.
fn after_estimates(
    name: &str,
    estimator: &dyn Estimator,
    specs: &[TenantSpec],
    seconds: &[Vec<TenantReading>],
) -> (Box<dyn Partitioner>, Vec<Share>) {
    let topology = common::topology(&TIERS);
    let ctx = BuildContext::new(&topology, 7);
    let document = Document::parse("t.toml", "").unwrap();
    let row = partition::TABLE.iter().find(|row| row.name == name).unwrap();
    let mut partitioner = (row.build)(&document.root(), &ctx).unwrap();
    let mut pages = PageTable::default();
    let mut shares = Shares::default();
    for (second, readings) in (1..).zip(seconds) {
        let now = Timestamp(second * 1_000_000_000);
        let used: u64 = readings.iter().map(|reading| reading.usage[0].0).sum();
        let free = [Pages(TIERS[0].saturating_sub(used)), Pages(0)];
        let obs = Observation {
            tenants: readings.clone(),
            tiers: vec![TierReading::default(); 2],
            ..Observation::default()
        };
        partitioner.on_observation(now, &obs, &pages);
        let ctx = PlanContext {
            topology: &topology,
            pages: &mut pages,
            free: &free,
            tenants: readings,
            specs,
            move_cost: None,
        };
        partitioner.partition(now, &ctx, estimator, &mut shares);
    }
    let all = (0..specs.len()).map(|i| shares.of(TenantId(i as u16), TierId::FASTEST)).collect();
    (partitioner, all)
}

/// True if a service that holds 3,000 pages needs few samples after some seconds of readings, in
/// which one of its two CPUs is busy for `busy`, and `fast` of its pages are fast.
fn is_sparse(seconds: usize, busy: f64, fast: u64) -> bool {
    let service = TenantSpec {
        class: Class::LatencyCritical,
        slo: Some(Duration::from_millis(20)),
        ..TenantSpec::new("service")
    };
    let reading = TenantReading {
        usage: vec![Pages(fast), Pages(3_000 - fast)],
        busy: Duration::from_secs_f64(busy),
        cpus: 2.0,
        operations: 10_000,
        misses: vec![fast * 1_000, (3_000 - fast) * 1_000],
        p99: Some(Duration::from_millis(1)),
        running: true,
        ..TenantReading::default()
    };
    let readings = vec![vec![reading]; seconds];
    after("tierwise", &[service], &readings).0.is_sparse(TenantId(0))
}

#[test]
fn filled_service_at_its_limit_is_sparse() {
    assert!(is_sparse(10, 1.99, 3_000));
    assert!(!is_sparse(8, 1.99, 3_000), "its hottest pages may not be fast yet");
    assert!(!is_sparse(10, 1.99, 2_000), "it waits for pages");
    assert!(!is_sparse(10, 0.1, 3_000), "it can spare memory");
}

/// The share of a service beside a neighbour that holds all fast memory and has far more weight.
/// The service's readings are of one second each.
fn share_of_service(seconds: &[TenantReading]) -> Pages {
    let service = TenantSpec {
        class: Class::LatencyCritical,
        slo: Some(Duration::from_millis(20)),
        weight: 1,
        ..TenantSpec::new("service")
    };
    let neighbour = TenantSpec { weight: 10_000, ..TenantSpec::new("neighbour") };
    let beside = TenantReading {
        usage: vec![Pages(9_000), Pages(20_000)],
        running: true,
        ..TenantReading::default()
    };
    let seconds: Vec<_> = seconds.iter().map(|own| vec![own.clone(), beside.clone()]).collect();
    decided("tierwise", &[service, neighbour], &seconds)[0].floor
}

fn holding(pages: u64) -> TenantReading {
    TenantReading { usage: vec![Pages(0), Pages(pages)], running: true, ..TenantReading::default() }
}

#[test]
fn unmeasured_service_keeps_what_it_holds() {
    let held = TenantReading { usage: vec![Pages(500), Pages(2_500)], ..holding(0) };
    assert_eq!(share_of_service(&vec![held.clone(); 10]), Pages(500), "its first answer may come");
    assert_eq!(share_of_service(&vec![held; 11]), Pages(3_000), "it does not report");
}

/// Of 10,000 fast pages the high watermark takes 1,875. The first tenant of three has a floor of
/// 1,000 pages, all of them in slow memory.
fn shares_beside_floor(unmonitored: bool) -> Vec<u64> {
    let reading = |fast, slow| TenantReading {
        usage: vec![Pages(fast), Pages(slow)],
        running: true,
        unmonitored,
        ..TenantReading::default()
    };
    let floor = Some(Limit::Bytes(Bytes(1_000 * 4096)));
    let specs = [
        TenantSpec { floors: vec![floor], ..TenantSpec::new("floor") },
        TenantSpec::new("large"),
        TenantSpec { weight: 10_000, ..TenantSpec::new("heavy") },
    ];
    let readings = vec![reading(0, 2_000), reading(6_000, 9_000), reading(500, 20_000)];
    decided("tierwise", &specs, &[readings]).iter().map(|share| share.floor.0).collect()
}

#[test]
fn unmonitored_tenants_keep_what_they_hold() {
    let [floor, large, heavy] = shares_beside_floor(true)[..] else { unreachable!() };
    assert!(floor >= 1_000 && large >= 6_000 && heavy >= 500, "{floor} {large} {heavy}");
    // Once they are monitored and nothing distinguishes their pages, weight divides.
    let [floor, large, heavy] = shares_beside_floor(false)[..] else { unreachable!() };
    assert!(floor >= 1_000 && large < 500 && heavy > 6_000, "{floor} {large} {heavy}");
}

/// A service whose answers show that it needs no fast memory: its servers are nearly idle.
fn nearly_idle() -> TenantReading {
    TenantReading {
        p99: Some(Duration::from_micros(10)),
        operations: 1_000,
        misses: vec![0, 1_000],
        busy: Duration::from_millis(1),
        cpus: 10.0,
        ..holding(3_000)
    }
}

#[test]
fn silent_service_keeps_its_last_share() {
    let idle = nearly_idle();
    let kept = share_of_service(std::slice::from_ref(&idle));
    assert!(kept < Pages(100), "{kept:?}");
    assert_eq!(share_of_service(&[idle, holding(3_000)]), kept);
}

#[test]
fn silence_after_a_violation_ends_the_guard() {
    let idle = nearly_idle();
    let late = TenantReading { p99: Some(Duration::from_millis(21)), ..idle.clone() };
    let after = |seconds| {
        let silence = std::iter::repeat_n(holding(3_000), seconds);
        share_of_service(
            &[idle.clone(), late.clone()].into_iter().chain(silence).collect::<Vec<_>>(),
        )
    };
    assert_eq!(after(0), Pages(3_000));
    assert_eq!(after(9), Pages(3_000), "the guard keeps it for ten seconds");
    assert!(after(12) < Pages(100), "{:?}", after(12));
}

/// An estimator that knows how many pages each tenant uses at each decision, all of them alike.
struct Alike<F>(F);

impl<F: Fn(TenantId) -> Pages + Send> Estimator for Alike<F> {
    fn signals(&self) -> Signals {
        Signals::default()
    }

    fn interval(&self) -> Option<Duration> {
        None
    }

    fn on_observation(&mut self, _: Timestamp, _: &Observation, _: &mut PageTable) {}

    fn on_outcomes(&mut self, _: Timestamp, _: &[MoveOutcome], _: &mut PageTable) {}

    fn update(&mut self, _: Timestamp, _: &mut PlanContext<'_>) {}

    fn promotable(&mut self, _: Scope, _: Pages, _: &mut PageTable, _: &mut Vec<PageId>) {}

    fn demotable(&mut self, _: Scope, _: Pages, _: &mut PageTable, _: &mut Vec<PageId>) {}

    fn hotness(&self, _: PageId, _: &PageTable) -> Hotness {
        Hotness(0)
    }

    fn curve(&self, tenant: TenantId, out: &mut Vec<(Pages, f64)>) {
        let used = (self.0)(tenant);
        out.extend((used > Pages(0)).then_some((used, 1.0)));
    }
}

/// Of 10,000 fast pages the high watermark takes 1,875. The service's 3,000 pages would gain more
/// than as many of the program's.
#[test]
fn programs_come_before_services_within_slo() {
    let service =
        |slo| TenantSpec { class: Class::LatencyCritical, slo, ..TenantSpec::new("service") };
    let shares = |slo, used: u64| {
        let specs = [service(slo), TenantSpec::new("program")];
        let beside = TenantReading { misses: vec![0, 1_000], ..holding(used) };
        let seconds = vec![vec![nearly_idle(), beside]; 3];
        let estimator = Alike(|tenant: TenantId| Pages([3_000, used][tenant.index()]));
        after_estimates("tierwise", &estimator, &specs, &seconds).1
    };
    let slo = Some(Duration::from_millis(20));
    assert_eq!(shares(slo, 20_000)[0].floor, Pages(0), "its SLO needs no fast memory");
    assert_eq!(shares(slo, 6_000)[0].floor, Pages(2_125), "the program has all that it uses");
    let any = shares(None, 20_000)[0].floor;
    assert!(any > Pages(2_000), "without an SLO it is as any tenant: {any:?}");
}

/// The program uses 8,000 pages for three seconds and then none, as between two phases.
#[test]
fn services_take_no_memory_between_phases() {
    let slo = Some(Duration::from_millis(20));
    let service = TenantSpec { class: Class::LatencyCritical, slo, ..TenantSpec::new("service") };
    let specs = [service, TenantSpec::new("program")];
    let of_service = |pause: usize| {
        let busy = TenantReading { misses: vec![0, 1_000], ..holding(8_000) };
        let calm = TenantReading { misses: vec![0, 0], ..holding(8_000) };
        let mut seconds = vec![vec![nearly_idle(), busy]; 3];
        seconds.extend(vec![vec![nearly_idle(), calm]; pause]);
        let busy_seconds = AtomicUsize::new(3);
        let estimator = Alike(|tenant| match tenant {
            TenantId(0) => Pages(3_000),
            _ if busy_seconds.load(Ordering::Relaxed) == 0 => Pages(0),
            _ => {
                busy_seconds.fetch_sub(1, Ordering::Relaxed);
                Pages(8_000)
            }
        });
        after_estimates("tierwise", &estimator, &specs, &seconds).1[0].floor
    };
    let (soon, later) = (of_service(1), of_service(30));
    assert!(soon < Pages(1_000), "{soon:?}: a tenth of the program's, and what was left");
    assert!(later > Pages(2_500), "{later:?}: a program that ended is no use to hold");
}

/// The shares of two programs that use 20,000 pages each, all alike, after such readings of both.
fn shares_of_alike(seconds: &[Vec<TenantReading>]) -> [f64; 2] {
    let specs = ["first", "second"].map(TenantSpec::new);
    let estimator = Alike(|_| Pages(20_000));
    let shares = after_estimates("tierwise", &estimator, &specs, seconds).1;
    [shares[0].floor.0 as f64, shares[1].floor.0 as f64]
}

fn missing(fast: u64, slow: u64) -> TenantReading {
    TenantReading { misses: vec![fast, slow], ..holding(20_000) }
}

#[test]
fn who_came_first_keeps_no_advantage() {
    let alone = vec![missing(0, 1_000), holding(0)];
    let both = vec![missing(0, 1_000), missing(0, 1_000)];
    let [first, second] = shares_of_alike(&[vec![alone; 5], vec![both.clone(); 5]].concat());
    assert!(first > 1.1 * second, "what it has moves when it pays: {first} and {second}");
    let later = [vec![vec![missing(0, 1_000), holding(0)]; 5], vec![both; 300]].concat();
    let [first, second] = shares_of_alike(&later);
    assert!(first < 1.02 * second, "{first} and {second}");
}

#[test]
fn who_was_slower_gets_more() {
    let before = vec![missing(1_000, 0), missing(0, 1_000)];
    let now = vec![missing(500, 500), missing(500, 500)];
    let [first, second] = shares_of_alike(&[vec![before; 60], vec![now; 5]].concat());
    assert!(second > 1.1 * first, "{first} and {second}");
}

/// A program that was as fast as it can be while it was alone.
#[test]
fn who_was_alone_owes_nothing() {
    let alone = vec![missing(1_000, 0), holding(0)];
    let both = vec![missing(500, 500), missing(500, 500)];
    let [first, second] = shares_of_alike(&[vec![alone; 120], vec![both; 90]].concat());
    assert!(first > 0.9 * second, "{first} and {second}");
}

#[test]
fn service_without_cpu_time_gets_all() {
    let answering = TenantReading {
        p99: Some(Duration::from_millis(1)),
        operations: 1_000,
        misses: vec![0, 100_000],
        cpus: 2.0,
        ..holding(3_000)
    };
    assert_eq!(share_of_service(&[answering.clone(), answering]), Pages(3_000));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        // The same cases every time.
        rng_seed: RngSeed::Fixed(3),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn floors_hold_and_weights_rank_shares(
        tenants in prop::collection::vec(tenant(), 1..12),
    ) {
        for name in ["equilibria", "tierwise"] {
            let shares = partitioned(name, &tenants);
            prop_assert_eq!(&shares, &partitioned(name, &tenants), "{}: not deterministic", name);
            let sum: u64 = shares.iter().map(|s| s.floor.0).sum();
            prop_assert!(sum <= TIERS[0], "{}: floors of {} pages", name, sum);
            let explicit = |t: &Tenant| t.floor.unwrap_or(0).min(t.cap.unwrap_or(u64::MAX));
            let explicit: u64 = tenants.iter().map(explicit).sum();
            for (share, t) in shares.iter().zip(&tenants) {
                let resident = t.fast + t.slow;
                // The high watermark of the fast tier stays free.
                let high = common::topology(&TIERS).tier(TierId::FASTEST).watermarks.high;
                let fits = explicit <= TIERS[0] - high.0;
                let wanted = t.floor.unwrap_or(0).min(resident).min(t.cap.unwrap_or(u64::MAX));
                prop_assert!(!fits || share.floor.0 >= wanted, "{}: {:?} {:?}", name, share, t);
                prop_assert!(share.cap.0 <= t.cap.unwrap_or(u64::MAX), "{}: {:?}", name, share);
                prop_assert!(share.floor <= share.cap, "{}: {:?}", name, share);
                prop_assert!((0.0..=1.0).contains(&share.promotion));
            }
            for (a, share) in tenants.iter().zip(&shares) {
                for (b, than) in tenants.iter().zip(&shares) {
                    let alike = a.floor == b.floor && a.cap == b.cap && a.fast == b.fast
                        && a.slow == b.slow && a.weight >= b.weight;
                    prop_assert!(!alike || share.floor >= than.floor, "{}: {:?} {:?}", name, a, b);
                }
            }
        }
    }

    /// Two tenants alike but for their weights.
    #[test]
    fn heavier_of_two_alike_gets_more(one in tenant(), weight in 1u32..10_000) {
        let other = Tenant { weight, ..one.clone() };
        for name in ["equilibria", "tierwise"] {
            let shares = partitioned(name, &[one.clone(), other.clone()]);
            let (light, heavy) = if one.weight <= weight { (0, 1) } else { (1, 0) };
            prop_assert!(shares[heavy].floor >= shares[light].floor, "{}: {:?}", name, shares);
        }
    }
}
