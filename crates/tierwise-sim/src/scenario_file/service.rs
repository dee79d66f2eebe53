//! `[workload.service]`: a latency-critical service that answers requests.

use std::path::Path;
use std::time::Duration;

use tierwise_core::config::{ConfigError, Section};
use tierwise_core::units::Bytes;

use crate::requests::arrival::{Arrivals, LoadStep};
use crate::requests::presets::{FAST_NS, PRESETS, PresetMemory as PresetTouched, ServicePreset};
use crate::requests::recorded::MAX_PREFETCHED;
use crate::requests::spec::{RequestMemory, ServiceSpec};

/// No machine serves more than a billion requests per second.
const RATES: std::ops::RangeInclusive<f64> = 1e-3..=1e9;

/// Loads relative to the knee; ten times is an overload from which no queue recovers in a
/// scenario's time.
const LOADS: std::ops::RangeInclusive<f64> = 0.0..=10.0;

pub(super) fn service(
    section: &Section<'_>,
    slo: Option<Duration>,
    base: &Path,
) -> Result<ServiceSpec, ConfigError> {
    let described = match section.text("preset")? {
        Some(name) => preset(section, name, slo, base)?,
        None => own(section, slo, base)?,
    };
    let arrivals = arrivals(section, described.max_per_second)?;
    section.finish()?;
    if let Err(problem) = arrivals.check() {
        return Err(section.error("arrivals", problem));
    }
    Ok(ServiceSpec { arrivals, ..described })
}

fn preset(
    section: &Section<'_>,
    name: &str,
    slo: Option<Duration>,
    base: &Path,
) -> Result<ServiceSpec, ConfigError> {
    let Some(preset) = ServicePreset::named(name) else {
        let names: Vec<&str> = PRESETS.iter().map(|p| p.name).collect();
        return Err(section.unknown_name("preset", name, &names));
    };
    let traces = section.text("traces")?.unwrap_or("../traces");
    let touched = match preset.touched {
        PresetTouched::Recorded { trace, lines_together, prefetched } => RequestMemory::Recorded {
            trace: base.join(traces).join(format!("{trace}.twt")),
            mark: "run".to_owned(),
            lines_together,
            prefetched,
        },
        PresetTouched::Document => RequestMemory::Document,
        PresetTouched::Transaction => RequestMemory::Transaction,
    };
    Ok(ServiceSpec {
        touched,
        resident: section.bytes_or("footprint", preset.resident)?,
        servers: preset.servers,
        slo: slo.unwrap_or(preset.slo),
        max_per_second: preset.max_per_second,
        knee_ns: Some(FAST_NS),
        arrivals: Arrivals::Poisson { per_second: preset.max_per_second },
    })
}

fn own(
    section: &Section<'_>,
    slo: Option<Duration>,
    base: &Path,
) -> Result<ServiceSpec, ConfigError> {
    let required = |key, what| section.error(key, format!("missing; write {what}, or a preset"));
    let max_per_second = section.number("max_per_second", RATES)?;
    let max_per_second =
        max_per_second.ok_or_else(|| required("max_per_second", "its load at the knee"))?;
    let resident = section.bytes("footprint")?;
    let resident: Bytes = resident.ok_or_else(|| required("footprint", "its resident memory"))?;
    let slo = slo.ok_or_else(|| {
        section.error("slo_ms", "missing; a service without a preset needs slo_ms in its workload")
    })?;
    Ok(ServiceSpec {
        touched: touched(section, base)?,
        resident,
        servers: section.whole_or("servers", 1, 1..=64)? as usize,
        slo,
        max_per_second,
        knee_ns: None,
        arrivals: Arrivals::Poisson { per_second: max_per_second },
    })
}

fn touched(section: &Section<'_>, base: &Path) -> Result<RequestMemory, ConfigError> {
    if let Some(trace) = section.text("trace")? {
        return Ok(RequestMemory::Recorded {
            trace: base.join(trace),
            mark: section.text("mark")?.unwrap_or("run").to_owned(),
            // Half of a record of 1,000 bytes: the rest of its lines is in the caches or
            // prefetched.
            lines_together: section.number_or("lines_together", 8.0, 1.0..=64.0)?,
            prefetched: section.number_or("prefetched", 0.0, 0.0..=MAX_PREFETCHED)?,
        });
    }
    let given = section.number("item_bytes", 16.0..=65_536.0)?;
    // YCSB's record of ten fields of 100 bytes, with its key and header.
    let key_value = RequestMemory::KeyValue { item_bytes: given.unwrap_or(1_100.0) };
    let touched = section.choice_or(
        "layout",
        key_value.clone(),
        &[
            ("key-value", key_value),
            ("document", RequestMemory::Document),
            ("transaction", RequestMemory::Transaction),
        ],
    )?;
    if given.is_some() && !matches!(touched, RequestMemory::KeyValue { .. }) {
        let problem = "only the layout \"key-value\" reads it; remove it, or take that layout";
        return Err(section.error("item_bytes", problem));
    }
    Ok(touched)
}

/// The shape of the load, in shares of the maximum.
fn arrivals(section: &Section<'_>, max: f64) -> Result<Arrivals, ConfigError> {
    let load = section.number_or("load", 1.0, LOADS)?;
    let shapes = ["poisson", "bursty", "ramp", "curve"].map(|name| (name, name));
    let shape = section.choice_or("arrivals", "poisson", &shapes)?;
    let per_second = load * max;
    let seconds = |key, default: f64| {
        Ok(Duration::from_secs_f64(section.number_or(key, default, 1e-6..=1e6)?))
    };
    Ok(match shape {
        "bursty" => Arrivals::Bursty {
            per_second,
            peak: section.number_or("peak", 2.0, 1.0..=1e3)?,
            mean_on: seconds("burst_s", 1.0)?,
            mean_off: seconds("pause_s", 4.0)?,
        },
        "ramp" => Arrivals::ramp(per_second),
        "curve" => curve(section, per_second)?,
        _ => Arrivals::Poisson { per_second },
    })
}

fn curve(section: &Section<'_>, per_second: f64) -> Result<Arrivals, ConfigError> {
    let lengths = section.numbers("curve_s", 1e-3..=1e7)?;
    let loads = section.numbers("curve_load", LOADS)?;
    if lengths.is_empty() || lengths.len() != loads.len() {
        let problem = format!(
            "found {} lengths and {} loads; allowed: as many of curve_s as of curve_load, at \
             least one",
            lengths.len(),
            loads.len()
        );
        return Err(section.error("curve_s", problem));
    }
    let step = |(seconds, load): (&f64, &f64)| LoadStep {
        length: Duration::from_secs_f64(*seconds),
        per_second: load * per_second,
    };
    let steps = lengths.iter().zip(&loads).map(step).collect();
    Ok(Arrivals::Curve { steps, repeat: section.flag_or("repeat", true)? })
}
