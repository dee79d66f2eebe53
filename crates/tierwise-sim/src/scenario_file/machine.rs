//! `[machine]`: a preset with sizes, or tiers described one by one.

use tierwise_core::config::{ConfigError, Section};
use tierwise_core::observe::DamonAttrs;
use tierwise_core::topology::Topology;
use tierwise_core::units::Bytes;

use super::hardware::ManagedTable;
use crate::machine::{Machine, PRESETS, TierModel};
use crate::scenario::TierSize;

/// Pages that a machine may have: a page's number has 32 bits.
const MAX_PAGES: u64 = u32::MAX as u64;

/// Allowed shares of the resident set. With twice the resident set all pages fit under any
/// watermarks; a larger number is probably a percentage.
const SHARES: std::ops::RangeInclusive<f64> = 0.0..=2.0;

/// The slow tier when no size is given: all pages fit, and watermarks never matter there.
const ROOMY: TierSize = TierSize::ShareOfResident(2.0);

pub(super) fn machine(section: &Section<'_>) -> Result<(Machine, Vec<TierSize>), ConfigError> {
    let page_size = page_size(section)?;
    // No CPU that hosts tenants executes fewer than a thousand instructions per millisecond.
    let instruction_ns =
        section.number_or("instruction_ns", Machine::DEFAULT_INSTRUCTION_NS, 0.001..=1000.0)?;
    // The range that the kernel's sysctl accepts.
    let watermark_scale_factor =
        section.whole_or("watermark_scale_factor", Machine::DEFAULT_WATERMARK_SCALE, 1..=3000)?;
    let granule_order = granule_order(section, page_size)?;
    // Zero would stand still; no machine has more CPUs than Linux allows (`NR_CPUS`).
    let cpus = section.whole("cpus", 1..=8192)?.map(|cpus| cpus as u32);
    let damon = damon(&section.section("damon")?)?;
    let tables = section.sections("tier")?;
    let managed = ManagedTable::read(&section.section("hardware")?)?;
    let preset = PresetKeys::read(section)?;
    // Before a missing key is reported: a misspelt key is the error that the user made.
    section.finish()?;
    let (tiers, sizes) = match managed {
        Some(managed) => preset.managed(section, &managed, &tables)?,
        None if tables.is_empty() => preset.tiers(section, page_size)?,
        None => {
            preset.refuse(section)?;
            tiers(section, &tables, page_size)?
        }
    };
    let hardware = managed.map(|managed| managed.hardware);
    let machine = Machine {
        page_size,
        tiers,
        instruction_ns,
        watermark_scale_factor,
        granule_order,
        hardware,
        cpus,
        damon,
    };
    Ok((machine, sizes))
}

/// Reads `[machine.damon]`: the intervals and the bounds of DAMON, if it stands for reference bits
/// and samples. Such a machine has a daemon, which finds memory by its addresses.
fn damon(table: &Section<'_>) -> Result<Option<DamonAttrs>, ConfigError> {
    if !table.is_present() {
        return Ok(None);
    }
    let default = DamonAttrs::default();
    // The daemon's ranges (`monitor.sampling_ms`, `monitor.aggregation_ms`).
    let sampling = table.millis_or("sampling_ms", default.sampling, 1..=10_000)?;
    let aggregation = table.millis_or("aggregation_ms", default.aggregation, 1..=60_000)?;
    if aggregation < sampling {
        let problem = format!("found {aggregation:?}; allowed: at least sampling_ms, {sampling:?}");
        return Err(table.error("aggregation_ms", problem));
    }
    // Three is the kernel's minimum; a million regions take as much memory as pages do.
    let min_regions = table.whole_or("min_regions", default.min_regions.into(), 3..=1_000_000)?;
    let max_regions =
        table.whole_or("max_regions", default.max_regions.into(), min_regions..=1_000_000)?;
    table.finish()?;
    let (min_regions, max_regions) = (min_regions as u32, max_regions as u32);
    Ok(Some(DamonAttrs { sampling, aggregation, min_regions, max_regions }))
}

fn page_size(section: &Section<'_>) -> Result<Bytes, ConfigError> {
    let page_size = section.bytes_or("page_size", Bytes(4096))?;
    // The base pages of Linux: 4 KiB on x86-64; 4, 16 and 64 KiB on AArch64.
    if ![4096, 16_384, 65_536].contains(&page_size.0) {
        let problem = format!("found {page_size}; allowed: \"4KiB\", \"16KiB\", \"64KiB\"");
        return Err(section.error("page_size", problem));
    }
    Ok(page_size)
}

/// Reads `granule`: a power of two of base pages, within the range of a page's order.
fn granule_order(section: &Section<'_>, page_size: Bytes) -> Result<u8, ConfigError> {
    let granule = section.bytes_or("granule", page_size)?;
    let pages = granule.0 / page_size.0;
    if !pages.is_power_of_two() || !granule.0.is_multiple_of(page_size.0) || pages > 1 << 15 {
        let problem = format!(
            "found {granule}; allowed: {page_size} times a power of two, up to {}",
            Bytes(page_size.0 << 15)
        );
        return Err(section.error("granule", problem));
    }
    Ok(pages.ilog2() as u8)
}

/// The preset's name and the keys of its sizes.
struct PresetKeys<'a> {
    name: Option<&'a str>,
    fast: SizeKeys,
    slow: Option<Bytes>,
}

impl<'a> PresetKeys<'a> {
    fn read(section: &Section<'a>) -> Result<Self, ConfigError> {
        Ok(Self {
            name: section.text("preset")?,
            fast: SizeKeys::read(section, "fast", "fast_share")?,
            slow: section.bytes("slow")?,
        })
    }

    /// Refuses all of them, when the tiers are described one by one.
    fn refuse(&self, section: &Section<'_>) -> Result<(), ConfigError> {
        let present = [
            ("preset", self.name.is_some()),
            ("fast", self.fast.bytes.is_some()),
            ("fast_share", self.fast.share.is_some()),
            ("slow", self.slow.is_some()),
        ];
        match present.into_iter().find(|&(_, present)| present) {
            None => Ok(()),
            Some((key, _)) => {
                let problem = "belongs to a preset, but [[machine.tier]] describes the machine; \
                               remove one of them";
                Err(section.error(key, problem))
            }
        }
    }

    fn name(&self, section: &Section<'_>) -> Result<&'a str, ConfigError> {
        self.name.ok_or_else(|| {
            let names: Vec<&str> = PRESETS.iter().map(|p| p.name).collect();
            let problem =
                format!("missing; allowed: {}; or [[machine.tier]] tables", names.join(", "));
            section.error("preset", problem)
        })
    }

    /// Returns the preset's memories, of which the CPU manages the second. `[machine.hardware]`
    /// gives their sizes.
    fn managed(
        &self,
        section: &Section<'_>,
        managed: &ManagedTable,
        tables: &[Section<'_>],
    ) -> Result<(Vec<TierModel>, Vec<TierSize>), ConfigError> {
        let sized = [
            ("fast", self.fast.bytes.is_some()),
            ("fast_share", self.fast.share.is_some()),
            ("slow", self.slow.is_some()),
            ("tier", !tables.is_empty()),
        ];
        if let Some((key, _)) = sized.into_iter().find(|&(_, present)| present) {
            let problem = "[machine.hardware] sets the sizes; remove one of them";
            return Err(section.error(key, problem));
        }
        self.models(section, managed.sizes())
    }

    fn models(
        &self,
        section: &Section<'_>,
        sizes: Vec<TierSize>,
    ) -> Result<(Vec<TierModel>, Vec<TierSize>), ConfigError> {
        let name = self.name(section)?;
        match Machine::preset(name, known(sizes[0]), known(sizes[1])) {
            Some(machine) => Ok((machine.tiers, sizes)),
            None => {
                let names: Vec<&str> = PRESETS.iter().map(|p| p.name).collect();
                Err(section.unknown_name("preset", name, &names))
            }
        }
    }

    fn tiers(
        &self,
        section: &Section<'_>,
        page_size: Bytes,
    ) -> Result<(Vec<TierModel>, Vec<TierSize>), ConfigError> {
        self.name(section)?;
        let fast = self.fast.size(section, page_size)?;
        self.slow.map_or(Ok(()), |bytes| check_capacity(section, "slow", bytes, page_size))?;
        let sizes = vec![fast, self.slow.map_or(ROOMY, TierSize::Bytes)];
        check_sum(section, &sizes, page_size)?;
        self.models(section, sizes)
    }
}

fn tiers(
    section: &Section<'_>,
    tables: &[Section<'_>],
    page_size: Bytes,
) -> Result<(Vec<TierModel>, Vec<TierSize>), ConfigError> {
    if tables.len() > Topology::MAX_TIERS {
        let problem =
            format!("found {} tiers; allowed: 1 to {}", tables.len(), Topology::MAX_TIERS);
        return Err(section.error("tier", problem));
    }
    let mut models: Vec<TierModel> = Vec::with_capacity(tables.len());
    let mut sizes = Vec::with_capacity(tables.len());
    for table in tables {
        let size = SizeKeys::read(table, "capacity", "share")?.size(table, page_size)?;
        let model = tier(table, known(size))?;
        check_order(table, &models, &model)?;
        models.push(model);
        sizes.push(size);
    }
    check_sum(section, &sizes, page_size)?;
    Ok((models, sizes))
}

fn tier(table: &Section<'_>, capacity: Bytes) -> Result<TierModel, ConfigError> {
    let required = |key, value: Option<f64>, unit| {
        value.ok_or_else(|| table.error(key, format!("missing; write a number of {unit}")))
    };
    // No memory answers within a nanosecond, and storage takes a millisecond; no machine reaches
    // ten petabytes per second.
    let (ns, gbps) = (1.0..=1e6, 0.001..=1e7);
    let load_ns = required("load_ns", table.number("load_ns", ns.clone())?, "nanoseconds")?;
    let read_gbps = required("read_gbps", table.number("read_gbps", gbps.clone())?, "GB/s")?;
    let model = TierModel {
        name: super::name(table, "name")?,
        capacity,
        load_ns,
        // A store that misses waits for its line as a load does.
        store_ns: table.number_or("store_ns", load_ns, ns)?,
        read_gbps,
        write_gbps: table.number_or("write_gbps", read_gbps, gbps)?,
        channels: table.whole_or("channels", 1, 1..=1024)? as u32,
        watermarks: watermarks(&table.section("watermarks")?)?,
        reserve: table.bytes_or("reserve", Bytes(0))?,
        page_cache: table.bytes_or("page_cache", Bytes(0))?,
    };
    // The size of a tier that is a share of a program is not known yet.
    if capacity > Bytes(0) && model.page_cache > capacity {
        let problem =
            format!("found {}; allowed: up to {capacity}, the tier's capacity", model.page_cache);
        return Err(table.error("page_cache", problem));
    }
    table.finish()?;
    Ok(model)
}

/// Reads `[machine.tier.watermarks]`: all four, in ascending order.
fn watermarks(table: &Section<'_>) -> Result<Option<[Bytes; 4]>, ConfigError> {
    if !table.is_present() {
        return Ok(None);
    }
    let mut found = [Bytes(0); 4];
    let mut least = Bytes(0);
    for (mark, key) in found.iter_mut().zip(["min", "low", "high", "promo"]) {
        let Some(bytes) = table.bytes(key)? else {
            return Err(table.error(key, "missing; write a size: \"8MiB\""));
        };
        if bytes < least {
            let problem = format!("found {bytes}; allowed: at least {least}, the mark before it");
            return Err(table.error(key, problem));
        }
        (*mark, least) = (bytes, bytes);
    }
    table.finish()?;
    Ok(Some(found))
}

fn check_order(
    table: &Section<'_>,
    faster: &[TierModel],
    model: &TierModel,
) -> Result<(), ConfigError> {
    if faster.iter().any(|other| other.name == model.name) {
        let problem = format!("found \"{}\" a second time; names are unique", model.name);
        return Err(table.error("name", problem));
    }
    if let Some(before) = faster.last()
        && model.load_ns < before.load_ns
    {
        let problem = format!(
            "found {}; allowed: at least {} ns, the latency of \"{}\" before it: tiers stand \
             fastest first",
            model.load_ns, before.load_ns, before.name
        );
        return Err(table.error("load_ns", problem));
    }
    Ok(())
}

/// A size in bytes or as a share of the resident set: exactly one of two keys.
struct SizeKeys {
    bytes_key: &'static str,
    bytes: Option<Bytes>,
    share_key: &'static str,
    share: Option<f64>,
}

impl SizeKeys {
    fn read(
        section: &Section<'_>,
        bytes_key: &'static str,
        share_key: &'static str,
    ) -> Result<Self, ConfigError> {
        let bytes = section.bytes(bytes_key)?;
        let share = section.number(share_key, SHARES)?;
        Ok(Self { bytes_key, bytes, share_key, share })
    }

    fn size(&self, section: &Section<'_>, page_size: Bytes) -> Result<TierSize, ConfigError> {
        let Self { bytes_key, share_key, .. } = *self;
        match (self.bytes, self.share) {
            (Some(bytes), None) => {
                check_capacity(section, bytes_key, bytes, page_size)?;
                Ok(TierSize::Bytes(bytes))
            }
            (None, Some(share)) if share > 0.0 => Ok(TierSize::ShareOfResident(share)),
            (None, Some(_)) => {
                let problem = "found 0; allowed: a share above 0, for instance 0.333";
                Err(section.error(share_key, problem))
            }
            (Some(_), Some(_)) => {
                Err(section.error(share_key, format!("{bytes_key} sets the size too; keep one")))
            }
            (None, None) => {
                let problem = format!("missing; write a size (\"64MiB\"), or {share_key} = 0.333");
                Err(section.error(bytes_key, problem))
            }
        }
    }
}

fn check_capacity(
    section: &Section<'_>,
    key: &'static str,
    bytes: Bytes,
    page_size: Bytes,
) -> Result<(), ConfigError> {
    let pages = bytes.in_pages(page_size).0;
    if (1..=MAX_PAGES).contains(&pages) {
        return Ok(());
    }
    let problem = format!(
        "found {bytes}; allowed: from one page ({page_size}) to {}",
        Bytes(MAX_PAGES * page_size.0)
    );
    Err(section.error(key, problem))
}

fn check_sum(
    section: &Section<'_>,
    sizes: &[TierSize],
    page_size: Bytes,
) -> Result<(), ConfigError> {
    // Each is at most MAX_PAGES, so seven of them do not overflow.
    let sum = sizes.iter().map(|&size| known(size).in_pages(page_size).0).sum::<u64>();
    if sum > MAX_PAGES {
        let problem = format!("found {sum} pages in all tiers together; allowed: {MAX_PAGES}");
        return Err(section.error("", problem));
    }
    Ok(())
}

/// Returns the bytes; zero for a share, which is known only with the workloads.
fn known(size: TierSize) -> Bytes {
    match size {
        TierSize::Bytes(bytes) => bytes,
        TierSize::ShareOfResident(_) => Bytes(0),
    }
}
