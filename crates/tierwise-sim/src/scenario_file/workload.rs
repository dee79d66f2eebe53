//! `[[workload]]`: one program, which is a tenant.

use std::path::Path;
use std::time::Duration;

use tierwise_core::config::{ConfigError, Section};

use super::{SECONDS, generator, name, seconds};
use crate::scenario::{Class, Source, Workload};

/// Windows, pages or rounds that one may stand for: a million-fold stretch says nothing of a program.
const MOST: u64 = 1_000_000;

pub(super) fn workload(section: &Section<'_>, base: &Path) -> Result<Workload, ConfigError> {
    let classes = [Class::BestEffort, Class::LatencyCritical].map(|class| (class.name(), class));
    let start = seconds(section, "start_s", 0.0..=*SECONDS.end())?.unwrap_or_default();
    let workload = Workload {
        name: name(section, "name")?,
        class: section.choice_or("class", Class::BestEffort, &classes)?,
        source: source(section, base)?,
        merge: section.whole_or("merge", 1, 1..=MOST)? as u32,
        dilation: section.whole_or("dilation", 1, 1..=MOST)? as u32,
        scale: section.whole_or("scale", 1, 1..=MOST)? as u32,
        loops: section.whole_or("loops", 1, 1..=MOST)? as u32,
        measure_from: section.text("measure_from")?.map(str::to_owned),
        measure_to: section.text("measure_to")?.map(str::to_owned),
        start,
        stop: stop(section, start)?,
        huge_pages: section.flag_or("huge_pages", false)?,
        // One miss at a time unless the file knows better. A core has a few dozen fill buffers at most.
        memory_level_parallelism: section.number_or(
            "memory_level_parallelism",
            1.0,
            1.0..=128.0,
        )?,
    };
    section.finish()?;
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

fn source(section: &Section<'_>, base: &Path) -> Result<Source, ConfigError> {
    let trace = section.text("trace")?;
    let generator = section.section("generator")?;
    match (trace, generator.is_present()) {
        (Some(""), _) => Err(section.error("trace", "found \"\"; allowed: the path of a trace")),
        (Some(path), false) => Ok(Source::Trace(base.join(path))),
        (None, true) => generator::generator(&generator),
        (Some(_), true) => {
            Err(section.error("trace", "a generator says what runs, too; keep one of them"))
        }
        (None, false) => {
            let problem = "missing; write the path of a trace, from this file's folder, or a \
                           [workload.generator]";
            Err(section.error("trace", problem))
        }
    }
}
