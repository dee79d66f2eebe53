//! `[workload.generator]`: a generated workload.

use tierwise_core::config::{ConfigError, Section};
use tierwise_core::units::Bytes;
use tierwise_trace::generate::{self, GENERATORS, GenerateError, GeneratorSpec, Motion};

use super::combination;
use crate::scenario::WorkloadSource;

/// Bytes of the base pages in which generators count.
const PAGE: Bytes = Bytes(4096);

/// A terabyte: beyond it, a simulation's own tables no longer fit an ordinary machine's memory.
const MAX_FOOTPRINT: Bytes = Bytes(1 << 40);

pub(super) fn generator(section: &Section<'_>) -> Result<WorkloadSource, ConfigError> {
    let names: Vec<&str> = GENERATORS.iter().map(|entry| entry.name).collect();
    let pattern = section.required_text("pattern")?;
    if !names.contains(&pattern) {
        return Err(section.unknown_name("pattern", pattern, &names));
    }
    let spec = spec(section)?;
    section.finish()?;
    combination::generator(section, pattern)?;
    // The ground truth is computed from the same pattern, without the tables of a whole workload.
    match generate::ground_truth(pattern, &spec) {
        Ok(_) => Ok(WorkloadSource::Generator(pattern.to_owned(), spec)),
        Err(GenerateError::Parameter { key, found, allowed }) => {
            // The file gives the footprint in bytes.
            let key = if key == "footprint_pages" { "footprint" } else { key };
            Err(section.error(key, format!("found {found}; allowed: {allowed}")))
        }
        Err(error) => Err(section.error("pattern", error)),
    }
}

fn spec(section: &Section<'_>) -> Result<GeneratorSpec, ConfigError> {
    let d = GeneratorSpec::default();
    // Counts in one window: the range of a 32-bit counter.
    let count = 1..=u64::from(u32::MAX);
    let motions = [("stairs", Motion::Stairs), ("zigzag", Motion::Zigzag), ("jump", Motion::Jump)];
    Ok(GeneratorSpec {
        footprint_pages: footprint_pages(section, d.footprint_pages)?,
        order: section.whole_or("order", d.order.into(), 0..=9)? as u8,
        accesses_per_window: section.whole_or(
            "accesses_per_window",
            d.accesses_per_window.into(),
            count.clone(),
        )? as u32,
        instructions_per_access: section.whole_or(
            "instructions_per_access",
            d.instructions_per_access,
            count.clone(),
        )?,
        windows: section.whole("windows", count.clone())?,
        write_ratio: section.number_or("write_ratio", d.write_ratio, 0.0..=1.0)?,
        file_fraction: section.number_or("file_fraction", d.file_fraction, 0.0..=1.0)?,
        touch_first: section.flag_or("touch_first", d.touch_first)?,
        exact: section.flag_or("exact", d.exact)?,
        seed: section.whole_or("seed", d.seed, 0..=u64::MAX)?,
        // Beyond 10 one page takes 99.9 % of the accesses.
        zipf_exponent: section.number_or("zipf_exponent", d.zipf_exponent, 0.0..=10.0)?,
        scrambled: section.flag_or("scrambled", d.scrambled)?,
        head_pages_per_window: section.whole_or(
            "head_pages_per_window",
            d.head_pages_per_window,
            0..=u64::from(u32::MAX),
        )?,
        accesses_per_page: section.whole("accesses_per_page", count.clone())?.map(|n| n as u32),
        hot_fraction: section.number_or("hot_fraction", d.hot_fraction, 0.0..=0.5)?,
        hot_access_share: section.number_or("hot_access_share", d.hot_access_share, 0.0..=1.0)?,
        motion: section.choice_or("motion", d.motion, &motions)?,
        dwell_windows: section.whole_or("dwell_windows", d.dwell_windows, count)?,
        change_windows: section.wholes("change_windows")?,
        // A record is on a few pages, like a row or a cached value.
        record_bytes: section.whole_or("record_bytes", d.record_bytes.into(), 1..=1 << 20)? as u32,
    })
}

fn footprint_pages(section: &Section<'_>, default: u64) -> Result<u64, ConfigError> {
    let Some(bytes) = section.bytes("footprint")? else { return Ok(default) };
    if !(PAGE..=MAX_FOOTPRINT).contains(&bytes) {
        let problem = format!("found {bytes}; allowed: from {PAGE} to {MAX_FOOTPRINT}");
        return Err(section.error("footprint", problem));
    }
    Ok(bytes.in_pages(PAGE).0)
}
