//! MTAT's four services have their knees at the published loads, and serve less load with less fast
//! memory.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::time::Duration;

use tierwise_core::units::Bytes;
use tierwise_sim::requests::knee::Placed;
use tierwise_sim::requests::mix::Mix;
use tierwise_sim::requests::presets::{FAST_NS, PRESETS, PresetMemory, SLOW_NS, ServicePreset};
use tierwise_sim::requests::tier::TierCosts;
use tierwise_sim::windows::{LoadedTrace, MeasuredMarks, Shape};
use tierwise_trace::reader::TraceReader;

const COSTS: TierCosts<'static> =
    TierCosts { load_ns: &[FAST_NS, SLOW_NS], store_ns: &[FAST_NS, SLOW_NS] };

fn mix(preset: &ServicePreset) -> Mix {
    let windows = match preset.trace() {
        Some(trace) => {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces");
            let mut reader = TraceReader::open(&root.join(format!("{trace}.twt"))).unwrap();
            LoadedTrace::read(&mut reader, MeasuredMarks::default(), Shape::default())
                .unwrap()
                .windows
        }
        None => Vec::new(),
    };
    preset.mix(preset.units(Bytes(1 << 20)), &windows).unwrap()
}

/// Long enough for an overload of 1.5 % to outgrow the objective (which takes its 1/0.015 fold),
/// short for a test.
fn time(preset: &ServicePreset) -> Duration {
    Duration::from_secs_f64((preset.slo.as_secs_f64() * 200.0).min(3e6 / preset.max_per_second))
}

#[test]
fn knees_lie_at_the_published_loads() {
    for preset in &PRESETS {
        let mix = mix(preset);
        let tier_of = vec![0; mix.units as usize];
        let time = time(preset);
        let placed = Placed { preset, mix: &mix, costs: COSTS, tier_of: &tier_of, time, seed: 11 };
        let p99 = |share: f64| placed.under(share * preset.max_per_second).unwrap().p99;
        let (below, beyond) = (p99(0.99), p99(1.03));
        assert!(below <= preset.slo, "{}: {below:?} at 99 % of its load", preset.name);
        assert!(beyond > preset.slo, "{}: {beyond:?} at 103 % of its load", preset.name);
        // The objective is far from the service time: below the knee no request waits long.
        let calm = p99(0.8);
        assert!(calm < preset.slo / 5, "{}: {calm:?} at 80 % of its load", preset.name);
    }
}

#[test]
fn less_fast_memory_bears_less_load() {
    for preset in &PRESETS {
        let mix = mix(preset);
        let time = time(preset);
        let mut before = f64::INFINITY;
        for quarters in (0..=4).rev() {
            let tier_of = mix.hottest_fast(mix.units * quarters / 4);
            let placed =
                Placed { preset, mix: &mix, costs: COSTS, tier_of: &tier_of, time, seed: 11 };
            let load = placed.max_load().unwrap();
            let name = preset.name;
            assert!(
                load <= before,
                "{name}: {load} with {quarters} quarters fast, {before} before"
            );
            // The queue grows slowly to its objective in an overload, or reaches it early: the load
            // is within 3 % of k / E[S].
            let off = load / placed.capacity() - 1.0;
            assert!(off.abs() < 0.03, "{name}: {load} is {off} off {}", placed.capacity());
            before = load;
        }
        let all_slow = before / preset.max_per_second;
        assert!((0.7..0.95).contains(&all_slow), "{}: {all_slow} all slow", preset.name);
    }
}

#[test]
fn misses_come_from_the_recording() {
    let operations = 150_000.0;
    for name in ["redis", "memcached"] {
        let preset = ServicePreset::named(name).unwrap();
        let mix = mix(preset);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces");
        let path = root.join(format!("{}.twt", preset.trace().unwrap()));
        let loaded = LoadedTrace::read(
            &mut TraceReader::open(&path).unwrap(),
            MeasuredMarks::default(),
            Shape::default(),
        )
        .unwrap();
        let run = &loaded.windows[loaded.mark("run").unwrap()..];
        let rows = run.iter().flat_map(|w| &w.accesses);
        let (loads, stores) = rows.fold((0u64, 0u64), |(l, s), row| {
            (l + u64::from(row.load_misses), s + u64::from(row.store_misses))
        });
        let PresetMemory::Recorded { prefetched, .. } = preset.touched else { unreachable!() };
        let missed = |lines: u64| lines as f64 / operations * (1.0 - prefetched);
        let (found_loads, found_stores) = mix.misses();
        assert!((found_loads - missed(loads)).abs() < 1e-6, "{name}: {found_loads}");
        assert!((found_stores - missed(stores)).abs() < 1e-6, "{name}: {found_stores}");
        assert!(
            (mix.misses_by_unit().iter().sum::<f64>() - found_loads - found_stores).abs() < 1e-3
        );
    }
}
