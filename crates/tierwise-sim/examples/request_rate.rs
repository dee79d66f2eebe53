//! Simulation speed of services: nanoseconds per request on one core, for each of
//! MTAT's four.
//!
//! `request_rate TRACES [SECONDS]`: TRACES is the directory of the recordings; SECONDS of virtual
//! time at nine tenths of the maximum load, a tenth of the memory slow, in steps of 10 ms.

use std::path::Path;
use std::time::Instant;

use tierwise_core::units::Bytes;
use tierwise_sim::requests::arrival::Arrivals;
use tierwise_sim::requests::presets::{FAST_NS, PRESETS, SLOW_NS, ServicePreset};
use tierwise_sim::requests::tenant::RequestTenant;
use tierwise_sim::requests::tier::{TierCosts, Touches, Unwatched};
use tierwise_sim::requests::watcher::Watcher;
use tierwise_sim::windows::{LoadedTrace, MeasuredMarks, Shape};
use tierwise_trace::reader::TraceReader;

/// The memory for which a recorded page stands.
const UNIT: Bytes = Bytes(1 << 20);

/// The host's step when hint faults are monitored.
const STEP_NS: u64 = 10_000_000;

/// Steps in a second.
const STEPS: u64 = 1_000_000_000 / STEP_NS;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let traces = arguments.next().ok_or("usage: request_rate TRACES [SECONDS]")?;
    let seconds: u64 = arguments.next().map_or(Ok(10), |s| s.parse())?;
    for preset in &PRESETS {
        let mix = open(preset, Path::new(&traces))?;
        let touches: f64 = mix
            .kinds
            .iter()
            .map(|k| k.share * k.groups.iter().map(|g| g.touches).sum::<f64>())
            .sum();
        let tier_of: Vec<u8> = (0..mix.units).map(|unit| u8::from(unit % 10 == 0)).collect();
        let arrivals = Arrivals::Poisson { per_second: 0.9 * preset.max_per_second };
        let mut tenant = RequestTenant::new(&preset.service(mix, arrivals, 1), 0)?;
        let mut watched = tenant.clone();
        let (requests, ns) = time(&mut tenant, seconds, &tier_of, &mut Unwatched);
        let mut watcher = Watcher::new(tier_of.len(), 1.0);
        watcher.sample_period = 10_007;
        let (_, watched_ns) = time(&mut watched, seconds, &tier_of, &mut watcher);
        println!(
            "{:<10} {requests:>10} requests of {touches:.2} touches: {ns:.1} ns each, watched \
             {watched_ns:.1} ns",
            preset.name
        );
    }
    Ok(())
}

fn open(
    preset: &ServicePreset,
    traces: &Path,
) -> Result<tierwise_sim::requests::mix::Mix, Box<dyn std::error::Error>> {
    let loaded = match preset.trace() {
        Some(trace) => {
            let mut reader = TraceReader::open(&traces.join(format!("{trace}.twt")))?;
            LoadedTrace::read(&mut reader, MeasuredMarks::default(), Shape::default())?.windows
        }
        None => Vec::new(),
    };
    Ok(preset.mix(preset.units(UNIT), &loaded)?)
}

/// Returns the requests, and nanoseconds per request in the fastest virtual second, which other
/// programs on the machine slow down least.
fn time(
    tenant: &mut RequestTenant,
    seconds: u64,
    tier_of: &[u8],
    touches: &mut impl Touches,
) -> (u64, f64) {
    let costs = TierCosts { load_ns: &[FAST_NS, SLOW_NS], store_ns: &[FAST_NS, SLOW_NS] };
    let (mut all, mut best) = (0, f64::INFINITY);
    for second in 0..seconds {
        let started = Instant::now();
        let steps = (1..=STEPS).map(|step| second * 1_000_000_000 + step * STEP_NS);
        let requests: u64 =
            steps.map(|to| tenant.advance(to, &costs, tier_of, touches).started).sum();
        best = best.min(started.elapsed().as_nanos() as f64 / requests as f64);
        all += requests;
    }
    (all, best)
}
