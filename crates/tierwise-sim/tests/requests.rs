//! Services of requests against results that can be computed by hand.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use tierwise_sim::requests::arrival::{Arrivals, LoadStep};
use tierwise_sim::requests::error::RequestError;
use tierwise_sim::requests::mix::{Mix, Popularity, RequestKind, UnitGroup};
use tierwise_sim::requests::server::Servers;
use tierwise_sim::requests::tenant::{RequestService, RequestTenant, StepWork};
use tierwise_sim::requests::tier::{TierCosts, Unwatched};
use tierwise_sim::requests::watcher::Watcher;

const SECOND: u64 = 1_000_000_000;
const COSTS: TierCosts<'static> = TierCosts { load_ns: &[100.0, 300.0], store_ns: &[100.0, 400.0] };

/// One touch of one of `units` units, with this many load misses.
fn mix(units: u32, cpu_ns: f64, touches: f64, loads: f64) -> Mix {
    let units_of = Popularity::Even { first: 0, count: units };
    let group =
        UnitGroup { name: "items", touches, loads, stores: 0.0, prefetched: 0.0, units: units_of };
    let kind = RequestKind { name: "get", share: 1.0, cpu_ns, groups: vec![group] };
    Mix { units, kinds: vec![kind], cached: vec![] }
}

fn service(per_second: f64, mix: Mix, servers: usize) -> RequestService {
    let arrivals = Arrivals::Poisson { per_second };
    RequestService { arrivals, mix, servers, slo: Duration::from_millis(1), seed: 3 }
}

fn steps(tenant: &mut RequestTenant, ends: &[u64], tier_of: &[u8]) -> Vec<StepWork> {
    ends.iter().map(|&to| tenant.advance(to, &COSTS, tier_of, &mut Unwatched).clone()).collect()
}

#[test]
fn idle_service_answers_in_service_time() {
    // One request in 10 ms on average, 1 us each: P50 is the service alone.
    let mut tenant = RequestTenant::new(&service(100.0, mix(1, 400.0, 1.0, 6.0), 1), 0).unwrap();
    let served = tenant.advance(100 * SECOND, &COSTS, &[0], &mut Unwatched).clone();
    let latency = tenant.latencies().total();
    assert_eq!(latency.p50.as_nanos(), 1000);
    assert_eq!(latency.requests, served.started);
    assert_eq!(served.busy_ns, served.started as f64 * 1000.0);
    assert_eq!(served.all_fast_ns(100.0, 100.0), served.busy_ns);
}

#[test]
fn mean_wait_is_pollaczek_khinchine() {
    // M/D/1 at 80 %: W = E[S] rho / (2 (1 - rho)) = 2 E[S]. Its P50 and P99 by the exact
    // distribution (Erlang): P(W <= t) = (1 - rho) sum_j (-1)^j (a - j rho)^j / j! e^(a - j rho), a
    // = lambda t.
    let mut tenant =
        RequestTenant::new(&service(800_000.0, mix(1, 1000.0, 0.0, 0.0), 1), 0).unwrap();
    tenant.advance(5 * SECOND, &COSTS, &[0], &mut Unwatched);
    let latency = tenant.latencies().total();
    let rho: f64 = 0.8;
    let at_most = |wait_ns: f64| {
        let a = wait_ns / 1000.0 * rho;
        let mut factorial = 1.0;
        let term = |j: u32| {
            if j > 0 {
                factorial *= f64::from(j);
            }
            let x = a - f64::from(j) * rho;
            (-x).powi(j as i32) / factorial * x.exp()
        };
        (1.0 - rho) * (0..=(a / rho) as u32).map(term).sum::<f64>()
    };
    for (quantile, found) in [(0.5, latency.p50), (0.95, latency.p95), (0.99, latency.p99)] {
        let exact = at_most(found.as_nanos() as f64 - 1000.0);
        assert!((exact - quantile).abs() < 0.005, "{quantile}: {found:?} is at {exact}");
    }
}

#[test]
fn two_servers_bear_twice_the_load() {
    let busy = |servers, per_second| {
        let mut tenant =
            RequestTenant::new(&service(per_second, mix(4, 1000.0, 0.0, 0.0), servers), 0).unwrap();
        tenant.advance(2 * SECOND, &COSTS, &[0; 4], &mut Unwatched);
        tenant.latencies().total().violations
    };
    assert_eq!(busy(1, 950_000.0), 0);
    assert!(busy(1, 1_050_000.0) > 0);
    assert_eq!(busy(2, 1_950_000.0), 0);
    assert!(busy(2, 2_050_000.0) > 0);
}

#[test]
fn misses_are_served_where_the_units_lie() {
    let tier_of: Vec<u8> = (0..100).map(|unit| u8::from(unit >= 75)).collect();
    let mix = mix(100, 1000.0, 2.5, 4.0);
    let mut tenant = RequestTenant::new(&service(100_000.0, mix.clone(), 2), 0).unwrap();
    let served = tenant.advance(4 * SECOND, &COSTS, &tier_of, &mut Unwatched).clone();
    let all: f64 = served.tiers.iter().map(|t| t.loads).sum();
    // Two and a half touches of four lines: exactly ten a request, but for a half that is still
    // due.
    assert!((all - served.started as f64 * 10.0).abs() <= 4.0);
    let slow = served.tiers[1].loads / all;
    // A quarter of a million touches: a standard deviation of 0.0004.
    assert!((slow - 0.25).abs() < 0.002, "{slow}");
    let mean = served.busy_ns / served.started as f64;
    assert!((mean / mix.mean_ns(&COSTS, &tier_of) - 1.0).abs() < 0.001, "{mean}");
}

#[test]
fn kinds_come_in_their_shares() {
    let mut mix = mix(1, 100.0, 0.0, 0.0);
    mix.kinds[0].share = 0.3;
    mix.kinds.push(RequestKind { name: "put", share: 0.7, cpu_ns: 1100.0, groups: vec![] });
    assert_eq!(mix.all_fast(&COSTS), (800.0, 0.3 * 700.0 * 700.0 + 0.7 * 300.0 * 300.0));
    let mut tenant = RequestTenant::new(&service(100_000.0, mix, 1), 0).unwrap();
    let served = tenant.advance(3 * SECOND, &COSTS, &[0], &mut Unwatched).clone();
    let mean = served.cpu_ns / served.started as f64;
    assert!((mean - 800.0).abs() < 4.0, "{mean}");
}

#[test]
fn stall_delays_one_request_and_followers() {
    let service = service(1000.0, mix(1, 1000.0, 0.0, 0.0), 1);
    let mut calm = RequestTenant::new(&service, 0).unwrap();
    let mut stalled = calm.clone();
    stalled.charge_stall(5e6);
    let [calm_sum, stalled_sum] = [&mut calm, &mut stalled]
        .map(|tenant| tenant.advance(SECOND, &COSTS, &[0], &mut Unwatched).busy_ns);
    assert_eq!(stalled_sum - calm_sum, 5e6);
    assert_eq!(calm.latencies().total().violations, 0);
    // 5 ms at a request a millisecond: about four more wait for longer than one.
    assert!((2..=12).contains(&stalled.latencies().total().violations));
}

#[test]
fn overloaded_queue_is_counted_and_bounded() {
    let service = service(2e6, mix(1, 1000.0, 0.0, 0.0), 1);
    let mut tenant = RequestTenant::new(&service, 0).unwrap();
    let ends: Vec<u64> = (1..=100).map(|i| i * SECOND / 100).collect();
    let served = steps(&mut tenant, &ends, &[0]);
    let arrived: u64 = served.iter().map(|s| s.arrived).sum();
    let started: u64 = served.iter().map(|s| s.started).sum();
    assert_eq!(arrived as usize, service_arrivals(&service, SECOND));
    // One a microsecond, but for the time before the first.
    assert!((999_990..=1_000_000).contains(&started), "{started}");
    let waiting = tenant.waiting();
    assert_eq!(waiting.requests, arrived - started);
    assert!(waiting.overdue < waiting.requests && waiting.overdue + 3_000 > waiting.requests);
    // Half of the arrivals were served, so the last one served had waited for half of the second.
    assert!(tenant.latencies().total().max > Duration::from_millis(490));
}

fn service_arrivals(service: &RequestService, until: u64) -> usize {
    // The same stream as the tenant's: it is made of the service's seed alone.
    let mut tenant = RequestTenant::new(service, 0).unwrap();
    let none = tenant.advance(0, &COSTS, &[0], &mut Unwatched).arrived;
    assert_eq!(none, 0);
    let mut idle = service.clone();
    idle.mix.kinds[0].cpu_ns = 0.0;
    let mut idle = RequestTenant::new(&idle, 0).unwrap();
    idle.advance(until, &COSTS, &[0], &mut Unwatched).arrived as usize
}

#[test]
fn load_curve_is_followed_bursts_keep_mean() {
    let step = |seconds, per_second| LoadStep { length: Duration::from_secs(seconds), per_second };
    let curve =
        Arrivals::Curve { steps: vec![step(1, 1e5), step(1, 0.0), step(2, 2e5)], repeat: false };
    let at: Vec<u64> = curve.stream(5, 0).collect();
    let count =
        |from, to| at.iter().filter(|at| (from..to).contains(&(**at / SECOND))).count() as f64;
    // Poisson counts: within four standard deviations.
    assert!((count(0, 1) - 1e5).abs() < 4.0 * 1e5f64.sqrt());
    assert_eq!(count(1, 2), 0.0);
    assert!((count(2, 4) - 4e5).abs() < 4.0 * 4e5f64.sqrt());
    assert_eq!(curve.mean_per_second(), 5e5 / 4.0);

    let bursts = Arrivals::Bursty {
        per_second: 1e4,
        peak: 4.0,
        mean_on: Duration::from_millis(10),
        mean_off: Duration::from_millis(40),
    };
    bursts.check().unwrap();
    let mut in_ten_ms = vec![0u32; 40_000];
    for at in bursts.stream(5, 0).take_while(|&at| at < 400 * SECOND) {
        in_ten_ms[(at / 10_000_000) as usize] += 1;
    }
    let n = in_ten_ms.len() as f64;
    let mean = in_ten_ms.iter().map(|&c| f64::from(c)).sum::<f64>() / n;
    let variance = in_ten_ms.iter().map(|&c| (f64::from(c) - mean).powi(2)).sum::<f64>() / n;
    // 8,000 cycles of 50 ms: the mean within 4 %, and the counts far from Poisson's.
    assert!((mean - 100.0).abs() < 4.0, "{mean}");
    assert!(variance > 20.0 * mean, "{variance}");
}

#[test]
fn a_repeated_curve_goes_on() {
    let steps = vec![
        LoadStep { length: Duration::from_millis(10), per_second: 1e5 },
        LoadStep { length: Duration::from_millis(30), per_second: 0.0 },
    ];
    let curve = Arrivals::Curve { steps, repeat: true };
    let at: Vec<u64> = curve.stream(1, 0).take_while(|&at| at < SECOND).collect();
    assert!(at.iter().all(|at| at % 40_000_000 < 10_000_000));
    assert!((at.len() as f64 - 25_000.0).abs() < 4.0 * 25_000f64.sqrt());
}

#[test]
fn monitoring_reports_touches_at_its_cost() {
    let mut tenant =
        RequestTenant::new(&service(10_000.0, mix(64, 1000.0, 1.0, 8.0), 1), 0).unwrap();
    let mut watcher = Watcher::new(64, 1.0);
    watcher.sample_period = 100;
    watcher.sample_ns = 250.0;
    watcher.hint_fault_ns = 1200.0;
    [3, 9, 63].into_iter().for_each(|unit| watcher.poison(unit));
    watcher.unpoison(9);
    let served = tenant.advance(SECOND, &COSTS, &[1; 64], &mut watcher).clone();
    let mut faulted: Vec<u32> = watcher.faults.iter().map(|f| f.local).collect();
    faulted.sort_unstable();
    assert_eq!(faulted, [3, 63]);
    assert!(watcher.faults.iter().all(|f| !f.write && f.at_ns < SECOND));
    let samples = (served.started * 8 / 100) as usize;
    assert_eq!(watcher.samples.len(), samples);
    assert!(watcher.samples.iter().all(|s| s.tier == 1 && !s.write && s.local < 64));
    assert_eq!(served.watched_ns, samples as f64 * 250.0 + 2.0 * 1200.0);
    let mut seen = 0;
    watcher.referenced.drain(|_| seen += 1);
    assert_eq!(seen, 64);
    assert!(watcher.written.is_empty());
}

/// A unit of 256 pages is reported when half of them were touched: 256 touches at random leave a
/// part of 1 / e untouched, so 177.1 leave a half.
#[test]
fn granule_is_reported_as_median_page() {
    let one = service(10_000.0, mix(1, 1000.0, 1.0, 8.0), 1);
    let mut tenant = RequestTenant::new(&one, 0).unwrap();
    let mut watcher = Watcher::new(1, 256.0);
    watcher.hint_fault_ns = 1200.0;
    watcher.poison(0);
    let mut started = 0;
    let seen_after = |started: u64, watcher: &Watcher| (started, watcher.faults.len());
    let mut before = (0, 0);
    for ms in 1.. {
        started += tenant.advance(ms * 1_000_000, &COSTS, &[1], &mut watcher).started;
        let now = seen_after(started, &watcher);
        assert_eq!(now.1 == 1, !watcher.referenced.is_empty(), "bit and fault agree");
        if now.1 == 1 {
            assert!(before.0 < 178 && 178 <= now.0, "{before:?} {now:?}");
            break;
        }
        before = now;
    }
}

#[test]
fn impossible_services_are_refused_with_reasons() {
    let refused =
        |service: &RequestService| RequestTenant::new(service, 0).unwrap_err().to_string();
    let sound = service(1000.0, mix(1, 1.0, 0.0, 0.0), 1);
    assert_eq!(
        refused(&RequestService { servers: 65, ..sound.clone() }),
        "servers: found 65; allowed: 1 to 64"
    );
    let negative = Arrivals::Poisson { per_second: -1.0 };
    assert_eq!(
        refused(&RequestService { arrivals: negative, ..sound.clone() }),
        "requests per second: found -1; allowed: a number from 0 to 1e9"
    );
    let mut beyond = sound;
    beyond.mix.units = 0;
    assert!(matches!(RequestTenant::new(&beyond, 0), Err(RequestError::Mix)));
}

proptest! {
    // The same cases on every machine.
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(44),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// FCFS against a queue that picks the first free server by a scan of all.
    #[test]
    fn servers_are_first_come_first_served(
        k in 1usize..9,
        requests in prop::collection::vec((0u64..50, 0u64..200), 1..200),
    ) {
        let mut servers = Servers::new(k, 0).unwrap();
        let mut free = vec![0u64; k];
        let mut arrival = 0;
        for (gap, service) in requests {
            arrival += gap;
            let first = (0..k).min_by_key(|&i| free[i]).unwrap();
            free[first] = free[first].max(arrival) + service;
            prop_assert_eq!(servers.serve(arrival, service), free[first]);
        }
    }

    /// Cutting time at other points changes nothing while units stay where they are.
    #[test]
    fn steps_do_not_matter(
        cuts in prop::collection::vec(1u64..SECOND / 10, 0..20),
        load in 1e4f64..2e6,
        servers in 1usize..4,
    ) {
        let tier_of = [0, 1, 0, 1];
        let service = service(load, mix(4, 700.0, 1.5, 2.0), servers);
        let mut ends = cuts;
        ends.sort_unstable();
        ends.push(SECOND / 10);
        let mut cut = RequestTenant::new(&service, 0).unwrap();
        let mut whole = cut.clone();
        let parts = steps(&mut cut, &ends, &tier_of);
        let once = &steps(&mut whole, &[SECOND / 10], &tier_of)[0];
        prop_assert_eq!(parts.iter().map(|s| s.arrived).sum::<u64>(), once.arrived);
        prop_assert_eq!(parts.iter().map(|s| s.started).sum::<u64>(), once.started);
        prop_assert_eq!(cut.latencies().total(), whole.latencies().total());
        prop_assert_eq!(cut.waiting(), whole.waiting());
        prop_assert_eq!(cut.backlog_ns(), whole.backlog_ns());
    }

    /// An alias table draws with the weights' probabilities.
    #[test]
    fn alias_tables_keep_probabilities(weights in prop::collection::vec(0.0f64..10.0, 1..300)) {
        let sum: f64 = weights.iter().sum();
        prop_assume!(sum > 0.1);
        let table = tierwise_sim::requests::alias::AliasTable::new(&weights);
        for (p, w) in table.probabilities().into_iter().zip(&weights) {
            prop_assert!((p - w / sum).abs() < 1e-8);
        }
    }
}
