//! Schemes (DAMOS): a selection of regions, an action, and a quota
//! (`Documentation/mm/damon/design.rst`, "Operation Schemes").

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use super::patience;
use crate::error::{LinuxError, Result};
use tierwise_core::units::Bytes;

/// Action on the regions of a scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DamosAction {
    /// Counts and reports them only.
    Stat,
    /// Moves them to a node, hottest first. For virtual addresses only since Linux 6.17; 6.12
    /// accepts the scheme and moves nothing.
    MigrateHot {
        /// NUMA node.
        node: u32,
    },
    /// Moves them to a node, coldest first.
    MigrateCold {
        /// NUMA node.
        node: u32,
    },
}

impl DamosAction {
    fn name(self) -> &'static str {
        match self {
            Self::Stat => "stat",
            Self::MigrateHot { .. } => "migrate_hot",
            Self::MigrateCold { .. } => "migrate_cold",
        }
    }

    fn node(self) -> Option<u32> {
        match self {
            Self::Stat => None,
            Self::MigrateHot { node } | Self::MigrateCold { node } => Some(node),
        }
    }
}

/// Selection of regions: all three ranges must match, ends included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessPattern {
    /// Size in bytes.
    pub size: RangeInclusive<u64>,
    /// Checks of an aggregation interval that found the region accessed.
    pub nr_accesses: RangeInclusive<u32>,
    /// Age in aggregation intervals.
    pub age: RangeInclusive<u32>,
}

impl Default for AccessPattern {
    /// All regions.
    fn default() -> Self {
        Self { size: 0..=u64::MAX, nr_accesses: 0..=u32::MAX, age: 0..=u32::MAX }
    }
}

/// Quota of a scheme per interval; zero is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Time of the kdamond, in whole milliseconds.
    pub time: Duration,
    /// Bytes tried. Less than a page lets nothing through.
    pub bytes: Bytes,
    /// Interval of the quota, in whole milliseconds.
    pub interval: Duration,
}

impl Default for Quota {
    /// No limit, counted per second.
    fn default() -> Self {
        Self { time: Duration::ZERO, bytes: Bytes(0), interval: Duration::from_secs(1) }
    }
}

/// Selection of a region's pages: those that no filter rejects. Physical addresses only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// Only pages charged to a memory cgroup itself, not to its children. The path starts at the
    /// cgroup mount, as in "/system.slice/redis.service".
    Memcg(String),
    /// Only pages of files.
    Files,
}

impl Filter {
    /// Writes the filter into its directory. It rejects pages; since Linux 6.14 a filter can also
    /// allow them.
    fn write(&self, directory: &Path) -> Result<()> {
        let (kind, matching) = match self {
            Self::Memcg(_) => ("memcg", "N"),
            Self::Files => ("anon", "Y"),
        };
        patience::write(&directory.join("type"), kind)?;
        if let Self::Memcg(path) = self {
            patience::write(&directory.join("memcg_path"), path)?;
        }
        patience::write(&directory.join("matching"), matching)?;
        match patience::write(&directory.join("allow"), "N") {
            Err(e) if e.is_gone() => Ok(()),
            other => other,
        }
    }
}

/// A scheme: an action on selected regions, within a quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheme {
    /// Action on the regions.
    pub action: DamosAction,
    /// Selection of regions.
    pub pattern: AccessPattern,
    /// Quota per interval.
    pub quota: Quota,
    /// Filters on the regions' pages.
    pub filters: Vec<Filter>,
}

impl Scheme {
    /// Reports every region.
    pub fn stat() -> Self {
        let (pattern, quota) = (AccessPattern::default(), Quota::default());
        Self { action: DamosAction::Stat, pattern, quota, filters: Vec::new() }
    }

    /// Writes the scheme into its directory, `schemes/<n>`. It counts from the next `on` or
    /// `commit`.
    ///
    /// # Errors
    /// The kernel does not know the action or the filter, or a file is missing.
    pub fn write(&self, directory: &Path) -> Result<()> {
        let action = self.action.name();
        patience::write(&directory.join("action"), action)
            .map_err(|e| unknown_action(action, e))?;
        if let Some(node) = self.action.node() {
            patience::write(&directory.join("target_nid"), &node.to_string())?;
        }
        let pattern = directory.join("access_pattern");
        bounds(&pattern.join("sz"), &self.pattern.size)?;
        bounds(&pattern.join("nr_accesses"), &self.pattern.nr_accesses)?;
        bounds(&pattern.join("age"), &self.pattern.age)?;
        self.write_quota(directory)?;
        self.write_filters(directory)
    }

    /// Writes the quota alone, for a scheme that already runs.
    ///
    /// # Errors
    /// A file is missing.
    pub fn write_quota(&self, directory: &Path) -> Result<()> {
        let quotas = directory.join("quotas");
        let Quota { time, bytes, interval } = self.quota;
        patience::write(&quotas.join("ms"), &time.as_millis().to_string())?;
        patience::write(&quotas.join("bytes"), &bytes.0.to_string())?;
        patience::write(&quotas.join("reset_interval_ms"), &interval.as_millis().to_string())
    }

    fn write_filters(&self, directory: &Path) -> Result<()> {
        // Since Linux 6.15 filters on pages have a directory of their own, and the old one is being
        // removed.
        let newer = directory.join("ops_filters");
        let filters = if newer.is_dir() { newer } else { directory.join("filters") };
        patience::write(&filters.join("nr_filters"), &self.filters.len().to_string())?;
        for (i, filter) in self.filters.iter().enumerate() {
            filter.write(&filters.join(i.to_string()))?;
        }
        Ok(())
    }
}

fn unknown_action(action: &str, error: LinuxError) -> LinuxError {
    match &error {
        LinuxError::File { source, .. } if source.raw_os_error() == Some(libc::EINVAL) => {
            LinuxError::Missing {
                what: format!("this kernel's DAMON does not know the action {action}"),
                remedy: "use Linux 6.11 or later, or let Tierwise move pages by move_pages".into(),
            }
        }
        _ => error,
    }
}

fn bounds<T: ToString>(directory: &Path, range: &RangeInclusive<T>) -> Result<()> {
    patience::write(&directory.join("min"), &range.start().to_string())?;
    patience::write(&directory.join("max"), &range.end().to_string())
}

/// Counters of a scheme since its kdamond's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SchemeStats {
    /// Bytes of matching regions.
    pub tried: Bytes,
    /// Bytes that the action was applied to: those moved, for the migrating actions.
    pub applied: Bytes,
    /// Number of intervals that the quota cut short.
    pub quota_exceeded: u64,
}

impl SchemeStats {
    /// Reads the counters from the scheme's directory. The kdamond must have been commanded to
    /// update them.
    ///
    /// # Errors
    /// A file is missing or does not hold a number.
    pub fn read(directory: &Path) -> Result<Self> {
        let stats = directory.join("stats");
        let number = |name: &str| patience::number::<u64>(&stats.join(name));
        let (tried, applied) = (Bytes(number("sz_tried")?), Bytes(number("sz_applied")?));
        Ok(Self { tried, applied, quota_exceeded: number("qt_exceeds")? })
    }
}
