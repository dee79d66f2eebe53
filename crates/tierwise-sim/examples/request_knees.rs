//! Latency by load of MTAT's four services, and the maximum load with a share of their memory fast
//! (MTAT, figure 1).
//!
//! `request_knees TRACES [SECONDS]`: TRACES is the directory of the recordings; each load runs for
//! SECONDS of virtual time (a sixth of it for Memcached).

use std::time::Duration;

use tierwise_core::units::Bytes;
use tierwise_sim::requests::knee::Placed;
use tierwise_sim::requests::presets::{FAST_NS, PRESETS, SLOW_NS};
use tierwise_sim::requests::tier::TierCosts;
use tierwise_sim::windows::{LoadedTrace, MeasuredMarks, Shape};
use tierwise_trace::reader::TraceReader;

/// The memory for which a recorded page stands.
const UNIT: Bytes = Bytes(1 << 20);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let traces = arguments.next().ok_or("usage: request_knees TRACES [SECONDS]")?;
    let seconds: f64 = arguments.next().map_or(Ok(30.0), |s| s.parse())?;
    let costs = TierCosts { load_ns: &[FAST_NS, SLOW_NS], store_ns: &[FAST_NS, SLOW_NS] };
    for preset in &PRESETS {
        let windows = match preset.trace() {
            Some(trace) => {
                let path = format!("{traces}/{trace}.twt");
                LoadedTrace::read(
                    &mut TraceReader::open(path.as_ref())?,
                    MeasuredMarks::default(),
                    Shape::default(),
                )?
                .windows
            }
            None => Vec::new(),
        };
        let mix = preset.mix(preset.units(UNIT), &windows)?;
        let (loads, stores) = mix.misses();
        let (mean_ns, _) = mix.all_fast(&costs);
        println!(
            "{}: {} units, {loads:.1} load and {stores:.1} store misses, {mean_ns:.0} ns a \
             request all fast",
            preset.name, mix.units
        );
        let time = Duration::from_secs_f64(if preset.servers > 1 && preset.max_per_second > 1e6 {
            seconds / 6.0
        } else {
            seconds
        });
        let all_fast = vec![0; mix.units as usize];
        let fast = Placed { preset, mix: &mix, costs, tier_of: &all_fast, time, seed: 1 };
        for percent in [20, 40, 60, 80, 90, 95, 99, 100, 101, 103, 105] {
            let summary = fast.under(preset.max_per_second * f64::from(percent) / 100.0)?;
            println!(
                "  {percent:>3} % of the load: P50 {:?}, P99 {:?}, P99.9 {:?}, {} violations of {}",
                summary.p50, summary.p99, summary.p999, summary.violations, summary.requests
            );
        }
        for quarters in (0..=4).rev() {
            let tier_of = mix.hottest_fast(mix.units * quarters / 4);
            let placed = Placed { tier_of: &tier_of, ..fast };
            let load = placed.max_load()?;
            println!(
                "  {:>3} % fast: {:.1} KRPS, {:.1} % of the published load; closed form {:.1} KRPS",
                quarters * 25,
                load / 1e3,
                100.0 * load / preset.max_per_second,
                placed.capacity() / 1e3
            );
        }
    }
    Ok(())
}
