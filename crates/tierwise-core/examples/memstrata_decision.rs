//! Measures the CPU time of a decision to lend dedicated memory, and the memory of its engine:
//! `memstrata_decision [TENANTS] [RECIPE]` prints one JSON object. Each tenant has 4 GiB in pages
//! of 2 MiB, as hypervisors have; every tenth tenant is an outlier. Ten decisions are made and
//! applied, one after the other.

#![allow(clippy::disallowed_methods, reason = "it measures the engine from outside")]

use std::time::Duration;

use tierwise_core::engine::{Engine, EngineConfig};
use tierwise_core::migrate::MoveOutcome;
use tierwise_core::observe::{
    Allocated, Capabilities, Coloured, CpuCounters, Observation, TenantReading, TierReading,
};
use tierwise_core::page::{Attributes, PageKind};
use tierwise_core::recipe::Recipe;
use tierwise_core::topology::{Tier, Topology, Watermarks};
use tierwise_core::units::{Bandwidth, Bytes, PageId, Pages, TenantId, TierId, Timestamp};

/// Pages of a tenant: 4 GiB in pages of 2 MiB.
const PAGES: u32 = 2048;

/// Pages of a tenant in dedicated memory: a third, as in `docs/hardware-tiers.md`.
const DEDICATED: u32 = 682;

/// Order of a page of 2 MiB in base pages of 4 KiB.
const ORDER: u8 = 9;

/// Seconds between two decisions: the `interval_ms` of the recipe `flat-memstrata`.
const INTERVAL_S: u64 = 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tenants: u16 = std::env::args().nth(1).map_or(Ok(1000), |n| n.parse())?;
    let recipe = std::env::args().nth(2).unwrap_or_else(|| "flat-memstrata".to_owned());
    let topology = topology(u64::from(tenants));
    let config = EngineConfig::new(Recipe::named(&recipe)?);
    let mut engine = Engine::new(&config, topology, &Capabilities::ALL, 1)?;
    let mut observation = allocations(tenants);
    let mut times = Vec::new();
    let mut moves = 0;
    for decision in 1..=10 {
        let now = Timestamp(decision * INTERVAL_S * 1_000_000_000);
        engine.handle_observation(now, &observation);
        let started = cpu_time()?;
        engine.poll_plan(now);
        times.push(cpu_time()?.saturating_sub(started));
        observation.clear();
        moves += execute(&mut engine, now, &mut observation);
    }
    times.sort_unstable();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "{{\"recipe\":\"{recipe}\",\"tenants\":{tenants},\"pages\":{},\"median_decision_ms\":{:.3},\
         \"longest_decision_ms\":{:.3},\"moves\":{moves},\"resident_mb\":{:.1}}}",
        u32::from(tenants) * PAGES,
        ms(times[times.len() / 2]),
        ms(times[times.len() - 1]),
        resident_mb()?
    );
    Ok(())
}

/// Applies the last plan as a world without failures does, and returns the number of its moves.
/// Demoted pages take the colours that promoted ones left.
fn execute(engine: &mut Engine, now: Timestamp, obs: &mut Observation) -> usize {
    let mut outcomes = Vec::new();
    let mut left = std::collections::VecDeque::new();
    for m in &engine.plan().moves {
        let from = engine.pages().tier(m.page);
        outcomes.push(MoveOutcome { page: m.page, from, to: m.to, result: Ok(()) });
        let usage = &mut obs.tenants[engine.pages().tenant(m.page).index()].usage;
        if let Some(from) = from {
            usage[from.index()] -= Pages(1 << ORDER);
            usage[m.to.index()] += Pages(1 << ORDER);
        }
        if m.to == TierId::FASTEST {
            left.extend(engine.pages().colour(m.page));
        } else if let Some(colour) = left.pop_front() {
            obs.coloured.push(Coloured { page: m.page, colour });
        }
    }
    engine.handle_outcomes(now, &outcomes);
    outcomes.len()
}

fn topology(tenants: u64) -> Topology {
    let tier = |name: &str, pages: u32, ns| Tier {
        name: name.to_owned(),
        capacity: Pages((u64::from(pages) * tenants) << ORDER),
        watermarks: Watermarks::NONE,
        load_latency: Duration::from_nanos(ns),
        store_latency: Duration::from_nanos(ns),
        bandwidth: Bandwidth(30_000_000_000),
    };
    let tiers = vec![tier("DRAM", DEDICATED, 73), tier("both", PAGES - DEDICATED, 202)];
    Topology { page_size: Bytes(4096), tiers }
}

/// The allocations of all tenants, and their first readings.
fn allocations(tenants: u16) -> Observation {
    let mut observation =
        Observation { tiers: vec![TierReading::default(); 2], ..Observation::default() };
    for tenant in 0..tenants {
        let first = u32::from(tenant) * PAGES;
        let mut run = |first, count, tier| {
            let attributes = Attributes {
                tenant: TenantId(tenant),
                tier: TierId(tier),
                kind: PageKind::Anon,
                order: ORDER,
            };
            observation.allocated.push(Allocated { first: PageId(first), count, attributes });
        };
        run(first, DEDICATED, 0);
        run(first + DEDICATED, PAGES - DEDICATED, 1);
        let coloured = |page| Coloured { page: PageId(page), colour: page / 2 };
        observation.coloured.extend((first + DEDICATED..first + PAGES).map(coloured));
        observation.tenants.push(reading(tenant));
    }
    observation
}

fn reading(tenant: u16) -> TenantReading {
    let suffers = tenant.is_multiple_of(10);
    let counters = CpuCounters {
        l3_miss_ns: if suffers { 150.0 } else { 75.0 },
        l2_miss_ns: 60.0,
        dtlb_miss_ns: 40.0,
        l2_misses: 4e8,
        memory_requests: 1e8,
        misses_in_flight: 4.0,
        instructions: 1e10,
    };
    let usage = [DEDICATED, PAGES - DEDICATED].map(|pages| Pages(u64::from(pages) << ORDER));
    TenantReading {
        usage: usage.to_vec(),
        counters: Some(counters),
        running: true,
        ..TenantReading::default()
    }
}

/// CPU time of this thread, without the time that it waited for a CPU
/// (`Documentation/scheduler/sched-stats.rst`).
fn cpu_time() -> Result<Duration, Box<dyn std::error::Error>> {
    // The kernel adds up at its ticks, and whenever a thread yields.
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let ran = text.split_whitespace().next().ok_or("/proc/thread-self/schedstat is empty")?;
    Ok(Duration::from_nanos(ran.parse()?))
}

/// The peak resident memory of this process.
fn resident_mb() -> Result<f64, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .ok_or("no VmHWM in /proc/self/status")?;
    let kib: f64 = line.split_whitespace().nth(1).ok_or("VmHWM is empty")?.parse()?;
    Ok(kib * 1024.0 / 1e6)
}
