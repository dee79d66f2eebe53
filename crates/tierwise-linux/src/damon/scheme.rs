//! Schemes (DAMOS): which regions, what is done with them, how much of it at most
//! (`Documentation/mm/damon/design.rst`, "Operation Schemes").

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use super::patience;
use crate::error::{LinuxError, Result};
use tierwise_core::units::Bytes;

/// What is done with the regions of a scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Nothing but counting and reporting them.
    Stat,
    /// Moves them to a node, hottest first. Of virtual addresses only since Linux 6.17; 6.12
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

impl Action {
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

/// Which regions: all three must fit, ends included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessPattern {
    /// Bytes.
    pub size: RangeInclusive<u64>,
    /// Samples found accessed in an aggregation interval.
    pub nr_accesses: RangeInclusive<u32>,
    /// Aggregation intervals.
    pub age: RangeInclusive<u32>,
}

impl Default for AccessPattern {
    /// All regions.
    fn default() -> Self {
        Self { size: 0..=u64::MAX, nr_accesses: 0..=u32::MAX, age: 0..=u32::MAX }
    }
}

/// The most that a scheme may do in each interval; zero is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Time of the kdamond, in whole milliseconds.
    pub time: Duration,
    /// Bytes tried. Less than a page lets nothing through.
    pub bytes: Bytes,
    /// The interval, in whole milliseconds.
    pub interval: Duration,
}

impl Default for Quota {
    /// No limit, counted by the second.
    fn default() -> Self {
        Self { time: Duration::ZERO, bytes: Bytes(0), interval: Duration::from_secs(1) }
    }
}

/// Which pages of a region: those that no filter rejects. Physical addresses only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// Only those charged to a memory cgroup itself, not its children: its path from the cgroup
    /// mount, as in "/system.slice/redis.service".
    Memcg(String),
    /// Only those of files.
    Files,
}

impl Filter {
    /// Writes it into its directory: it rejects. Since Linux 6.14 one could also allow.
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

/// A scheme.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheme {
    /// What is done.
    pub action: Action,
    /// With which regions.
    pub pattern: AccessPattern,
    /// How much at most.
    pub quota: Quota,
    /// Which of their pages.
    pub filters: Vec<Filter>,
}

impl Scheme {
    /// Reports every region.
    pub fn stat() -> Self {
        let (pattern, quota) = (AccessPattern::default(), Quota::default());
        Self { action: Action::Stat, pattern, quota, filters: Vec::new() }
    }

    /// Writes it into its directory, `schemes/<n>`. It counts from the next `on` or `commit`.
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

    /// Writes its quota alone, for a running scheme that is given another.
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
        // Since Linux 6.15 filters that pages are asked for have a directory of their own, and the
        // old one is going.
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

/// What a scheme did since its kdamond was turned on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SchemeStats {
    /// Bytes of regions that fitted.
    pub tried: Bytes,
    /// Bytes of them with which something was done: moved, for the migrating actions.
    pub applied: Bytes,
    /// How often a quota cut it short.
    pub quota_exceeded: u64,
}

impl SchemeStats {
    /// Reads them from the scheme's directory; the kdamond must have been told to update them.
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
