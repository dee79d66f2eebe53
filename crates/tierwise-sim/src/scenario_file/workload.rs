//! `[[workload]]`: one workload, which is a tenant.

use std::path::Path;
use std::time::Duration;

use tierwise_core::config::{ConfigError, Section};

use super::{SECONDS, combination, generator, name, seconds, service};
use crate::scenario::{Class, WorkloadSource, WorkloadSpec};
use tierwise_core::tenant::{DEFAULT_WEIGHT, MAX_WEIGHT};

/// Maximum of windows, pages or rounds that replace one: a workload stretched a million times shows
/// nothing of the original.
const MAX: u64 = 1_000_000;

/// A latency that an operator may promise: from 50 microseconds to an hour. A smaller number is
/// probably in seconds: a request over the network takes 50 microseconds before it is served.
const SLO_MS: std::ops::RangeInclusive<f64> = 0.05..=3.6e6;

pub(super) fn workload(section: &Section<'_>, base: &Path) -> Result<WorkloadSpec, ConfigError> {
    let classes = [Class::BestEffort, Class::LatencyCritical].map(|class| (class.name(), class));
    let start = seconds(section, "start_s", 0.0..=*SECONDS.end())?.unwrap_or_default();
    let slo = section.number("slo_ms", SLO_MS)?.map(|ms| Duration::from_secs_f64(ms / 1e3));
    let source = source(section, slo, base)?;
    // A service's objective may come with its preset.
    let slo = match &source {
        WorkloadSource::Service(service) => Some(service.slo),
        _ => slo,
    };
    let default_class = match &source {
        WorkloadSource::Service(_) => Class::LatencyCritical,
        _ => Class::BestEffort,
    };
    let workload = WorkloadSpec {
        name: name(section, "name")?,
        class: section.choice_or("class", default_class, &classes)?,
        slo,
        weight: section.whole_or("weight", DEFAULT_WEIGHT.into(), 1..=MAX_WEIGHT.into())? as u32,
        floors: section.limits("floor")?,
        caps: section.limits("cap")?,
        profile: section.text("profile")?.map(|path| base.join(path)),
        source,
        merge: section.whole_or("merge", 1, 1..=MAX)? as u32,
        dilation: section.whole_or("dilation", 1, 1..=MAX)? as u32,
        scale: section.whole_or("scale", 1, 1..=MAX)? as u32,
        threads: section.whole_or("threads", 1, 1..=4096)? as u32,
        own_cpus: section.flag_or("own_cpus", false)?,
        footprint: section.bytes("footprint")?,
        loops: section.whole_or("loops", 1, 1..=MAX)? as u32,
        run_from: section.text("run_from")?.map(str::to_owned),
        measure_from: section.text("measure_from")?.map(str::to_owned),
        measure_to: section.text("measure_to")?.map(str::to_owned),
        start,
        after: section.text("after")?.map(str::to_owned),
        stop: stop(section, start)?,
        huge_pages: section.flag_or("huge_pages", false)?,
        // One miss at a time, unless the file says otherwise. A core has a few dozen fill buffers
        // at most.
        memory_level_parallelism: section.number_or(
            "memory_level_parallelism",
            1.0,
            1.0..=128.0,
        )?,
        client_share: section.number_or("client_share", 0.0, 0.0..=1.0)?,
        leaves_memory: section.flag_or("leaves_memory", false)?,
    };
    section.finish()?;
    combination::workload(section, &workload)?;
    Ok(workload)
}

fn stop(section: &Section<'_>, start: Duration) -> Result<Option<Duration>, ConfigError> {
    let stop = seconds(section, "stop_s", SECONDS)?;
    match stop {
        Some(stop) if stop <= start => {
            let problem = format!(
                "found {}; allowed: later than start_s, which is {}",
                stop.as_secs_f64(),
                start.as_secs_f64()
            );
            Err(section.error("stop_s", problem))
        }
        _ => Ok(stop),
    }
}

fn source(
    section: &Section<'_>,
    slo: Option<Duration>,
    base: &Path,
) -> Result<WorkloadSource, ConfigError> {
    let trace = section.text("trace")?;
    let generator = section.section("generator")?;
    let service = section.section("service")?;
    let given = [trace.is_some(), generator.is_present(), service.is_present()];
    if given.into_iter().filter(|&given| given).count() > 1 {
        let key = if trace.is_some() { "trace" } else { "generator" };
        let problem = "another key names the source, too; keep one of trace, generator, service";
        return Err(section.error(key, problem));
    }
    match trace {
        Some("") => Err(section.error("trace", "found \"\"; allowed: the path of a trace")),
        Some(path) => Ok(WorkloadSource::Trace(base.join(path))),
        None if generator.is_present() => generator::generator(&generator),
        None if service.is_present() => {
            Ok(WorkloadSource::Service(service::service(&service, slo, base)?))
        }
        None => {
            let problem = "missing; write the path of a trace, relative to this file, a \
                           [workload.generator] or a [workload.service]";
            Err(section.error("trace", problem))
        }
    }
}
