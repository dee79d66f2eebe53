//! The oracle's run: every window takes the time of its bound. Nothing is simulated, so no workload
//! can run out of memory.

use std::collections::BTreeMap;
use std::time::Duration;

use tierwise_core::recipe::Recipe;
use tierwise_trace::Window;

use super::summary::{Measured, policy_result};
use super::{Prepared, RunOptions};
use crate::error::SimError;
use crate::result::{RunOutput, TenantPoint, TenantResult, TimelinePoint};
use crate::windows::Windows;
use crate::workload::{Work, Workload};

/// A window that was run: its start, its duration, its work.
struct Span {
    from_ns: f64,
    took_ns: f64,
    fast: f64,
    misses: f64,
    instructions: f64,
}

pub(super) fn run(
    prepared: &Prepared,
    recipe: &Recipe,
    options: &RunOptions,
) -> Result<RunOutput, SimError> {
    let mut measured = Vec::new();
    let mut tenants = Vec::new();
    let mut spans: Vec<Vec<Span>> = Vec::new();
    let before = prepared.scenario().predecessors();
    for i in 0..prepared.scenario().workloads.len() {
        // A workload follows only those before it.
        let start = before[i].map(|before| end_of(&spans[before]));
        let (m, operations, workload_spans) = run_one(prepared, i, start)?;
        tenants.push(tenant(prepared, i, &m, operations));
        measured.push(m);
        spans.push(workload_spans);
    }
    let timeline = options.timeline.map_or_else(Vec::new, |every| course(prepared, &spans, every));
    let result = policy_result(recipe.name(), &measured, tenants);
    Ok(RunOutput { result, timeline, heat_map: None, record: None })
}

/// Returns the end of a workload's last window, in nanoseconds.
fn end_of(spans: &[Span]) -> f64 {
    spans.last().map_or(0.0, |span| span.from_ns + span.took_ns)
}

/// Runs a workload from `start`, in nanoseconds; `None` for its own time.
fn run_one(
    prepared: &Prepared,
    i: usize,
    start: Option<f64>,
) -> Result<(Measured, f64, Vec<Span>), SimError> {
    let spec = &prepared.scenario().workloads[i];
    let end = [spec.stop, prepared.scenario().duration].into_iter().flatten().min();
    let end_ns = end.map_or(f64::INFINITY, |d| d.as_nanos() as f64);
    let mut now = start.unwrap_or(spec.start.as_nanos() as f64);
    // This workload is never placed. It only gives the work of its windows.
    let mut workload = Workload::new(prepared.windows(i)?, prepared.machine().tiers.len(), 0);
    workload.threads = f64::from(spec.threads);
    workload.cpu_limit = prepared.machine().cpus.map_or(f64::INFINITY, f64::from);
    let mut work = Work::none(prepared.machine().tiers.len());
    let (mut measured, mut spans) = (Measured::default(), Vec::new());
    let mut window = Window::default();
    while now < end_ns && next(&mut workload.windows, &mut window)? {
        prepared.watch().step();
        std::mem::swap(&mut workload.window, &mut window);
        workload.set_parallelism();
        let dilation = f64::from(workload.windows.dilation());
        let bound = *workload.windows.bound();
        let parallelism = workload.parallelism.min(workload.cpu_limit);
        let whole = (bound.oracle_ns * dilation / parallelism).max(1.0);
        let part = ((end_ns - now) / whole).min(1.0);
        let amount = part * dilation;
        spans.push(Span {
            from_ns: now,
            took_ns: whole * part,
            fast: bound.oracle_fast_misses * amount,
            misses: bound.misses * amount,
            instructions: workload.window.instructions as f64 * amount,
        });
        if workload.windows.is_measured() {
            measured.took_ns += whole * part;
            measured.wall_ns += whole * part;
            measured.fast += bound.oracle_fast_misses * amount;
            measured.misses += bound.misses * amount;
            work.add(&workload, amount);
        }
        now += whole * part;
    }
    measured.all_fast_ns = work.all_fast_ns;
    measured.oracle_ns = work.oracle_ns;
    measured.instructions = work.instructions;
    Ok((measured, work.operations, spans))
}

fn next(windows: &mut Windows, window: &mut Window) -> Result<bool, SimError> {
    Ok(windows.next(window)?)
}

fn tenant(prepared: &Prepared, i: usize, m: &Measured, operations: f64) -> TenantResult {
    let spec = &prepared.scenario().workloads[i];
    let page_size = prepared.machine().page_size.0;
    let mut left = prepared.resident_of(i) * page_size;
    let usage_bytes: BTreeMap<String, u64> = prepared
        .machine()
        .tiers
        .iter()
        .map(|t| {
            let here = left.min(t.capacity.0);
            left -= here;
            (t.name.clone(), here)
        })
        .collect();
    TenantResult {
        name: spec.name.clone(),
        class: spec.class.name().to_owned(),
        throughput: m.throughput(),
        slowdown: m.slowdown(),
        fast_access_ratio: m.fast_access_ratio(),
        usage_bytes,
        promotions: 0,
        demotions: 0,
        reaccessed: None,
        seconds: m.wall_ns * 1e-9,
        overhead_seconds: 0.0,
        operations_per_second: (operations > 0.0).then(|| operations / (m.took_ns * 1e-9)),
        latency: None,
        failure: None,
    }
}

/// One point for each interval: each window's work is spread evenly over its time.
fn course(prepared: &Prepared, spans: &[Vec<Span>], every: Duration) -> Vec<TimelinePoint> {
    let every = (every.as_nanos() as f64).max(1.0);
    let end = spans.iter().flatten().map(|s| s.from_ns + s.took_ns).fold(0.0, f64::max);
    let points = (end / every).ceil() as usize;
    let mut sums = vec![vec![(0.0, 0.0, 0.0); spans.len()]; points];
    for (workload, workload_spans) in spans.iter().enumerate() {
        for span in workload_spans {
            let last = ((span.from_ns + span.took_ns) / every).ceil() as usize;
            let first = (span.from_ns / every) as usize;
            for (point, sums) in sums.iter_mut().enumerate().take(last).skip(first) {
                let from = span.from_ns.max(point as f64 * every);
                let to = (span.from_ns + span.took_ns).min((point + 1) as f64 * every);
                let part = (to - from).max(0.0) / span.took_ns;
                let sum = &mut sums[workload];
                sum.0 += span.fast * part;
                sum.1 += span.misses * part;
                sum.2 += span.instructions * part;
            }
        }
    }
    let share = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
    let tenant = |i: usize, &(fast, misses, instructions): &(f64, f64, f64)| TenantPoint {
        name: prepared.scenario().workloads[i].name.clone(),
        throughput: instructions / (every * 1e-9),
        fast_access_ratio: share(fast, misses),
        usage_bytes: Vec::new(),
        promotions: 0,
        demotions: 0,
        requests_per_second: None,
        p99_ms: None,
    };
    sums.iter()
        .enumerate()
        .map(|(point, workloads)| TimelinePoint {
            misses: workloads.iter().map(|p| p.1).sum(),
            time_seconds: (point + 1) as f64 * every * 1e-9,
            fast_access_ratio: share(
                workloads.iter().map(|p| p.0).sum(),
                workloads.iter().map(|p| p.1).sum(),
            ),
            promotions: 0,
            demotions: 0,
            tenants: workloads.iter().enumerate().map(|(i, sum)| tenant(i, sum)).collect(),
        })
        .collect()
}
