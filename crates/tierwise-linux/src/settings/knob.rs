//! The kernel settings that Tierwise may change if its configuration asks for it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::{LinuxError, Result};
use crate::file;
use crate::roots::Roots;

/// A setting of the whole machine. A state file uses the kernel's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Knob {
    /// `kernel.numa_balancing`: 0 off, 1 between nodes, 2 promotion between tiers, 3 both
    /// (`Documentation/admin-guide/sysctl/kernel.rst`).
    #[serde(rename = "numa_balancing")]
    NumaBalancing,
    /// `kernel.numa_balancing_promote_rate_limit_MBps`: the promotion limit in MB/s per node.
    #[serde(rename = "numa_balancing_promote_rate_limit_MBps")]
    PromoteRateLimit,
    /// `hot_threshold_ms` of NUMA balancing in debugfs: the kernel promotes pages that were
    /// accessed within this time after they were poisoned.
    #[serde(rename = "hot_threshold_ms")]
    HotThreshold,
    /// `scan_size_mb` of NUMA balancing in debugfs: the memory of a chunk that is scanned at once.
    #[serde(rename = "scan_size_mb")]
    ScanSize,
    /// `scan_period_min_ms` of NUMA balancing in debugfs: the shortest time between two chunks of a
    /// thread, divided by the number of chunks of its memory.
    #[serde(rename = "scan_period_min_ms")]
    ScanPeriodMin,
    /// `scan_period_max_ms` of NUMA balancing in debugfs: the longest such time.
    #[serde(rename = "scan_period_max_ms")]
    ScanPeriodMax,
    /// `scan_delay_ms` of NUMA balancing in debugfs: the time before the first chunk of a process.
    #[serde(rename = "scan_delay_ms")]
    ScanDelay,
    /// `/sys/kernel/mm/numa/demotion_enabled`: reclaim demotes before it swaps.
    #[serde(rename = "demotion_enabled")]
    DemotionEnabled,
    /// `damon_stat.enabled`: the kernel's own use of DAMON, which excludes all other users.
    #[serde(rename = "damon_stat.enabled")]
    DamonStat,
    /// The tracepoint `migrate:mm_migrate_pages`.
    #[serde(rename = "mm_migrate_pages")]
    TraceMigratePages,
}

/// The values that a setting accepts.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// On or off; the kernel shows `Y`, `true` or `1`.
    Switch,
    /// A whole number up to this.
    Number(u64),
}

impl Knob {
    /// All settings.
    pub const ALL: [Self; 10] = [
        Self::NumaBalancing,
        Self::PromoteRateLimit,
        Self::HotThreshold,
        Self::ScanSize,
        Self::ScanPeriodMin,
        Self::ScanPeriodMax,
        Self::ScanDelay,
        Self::DemotionEnabled,
        Self::DamonStat,
        Self::TraceMigratePages,
    ];

    /// Returns the kernel's name of the setting.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NumaBalancing => "numa_balancing",
            Self::PromoteRateLimit => "numa_balancing_promote_rate_limit_MBps",
            Self::HotThreshold => "hot_threshold_ms",
            Self::ScanSize => "scan_size_mb",
            Self::ScanPeriodMin => "scan_period_min_ms",
            Self::ScanPeriodMax => "scan_period_max_ms",
            Self::ScanDelay => "scan_delay_ms",
            Self::DemotionEnabled => "demotion_enabled",
            Self::DamonStat => "damon_stat.enabled",
            Self::TraceMigratePages => "mm_migrate_pages",
        }
    }

    /// Returns the setting's file.
    pub fn path(self, roots: &Roots) -> PathBuf {
        match self {
            Self::NumaBalancing | Self::PromoteRateLimit => {
                roots.proc.join("sys/kernel").join(self.name())
            }
            Self::HotThreshold
            | Self::ScanSize
            | Self::ScanPeriodMin
            | Self::ScanPeriodMax
            | Self::ScanDelay => {
                roots.sys.join("kernel/debug/sched/numa_balancing").join(self.name())
            }
            Self::DemotionEnabled => roots.sys.join("kernel/mm/numa/demotion_enabled"),
            Self::DamonStat => roots.sys.join("module/damon_stat/parameters/enabled"),
            Self::TraceMigratePages => {
                roots.sys.join("kernel/tracing/events/migrate/mm_migrate_pages/enable")
            }
        }
    }

    /// True if it is in debugfs or tracefs. Both may be unmounted while the kernel keeps the value;
    /// the kernel itself never takes these settings away.
    pub(super) const fn is_mounted_apart(self) -> bool {
        match self {
            Self::HotThreshold
            | Self::ScanSize
            | Self::ScanPeriodMin
            | Self::ScanPeriodMax
            | Self::ScanDelay
            | Self::TraceMigratePages => true,
            Self::NumaBalancing
            | Self::PromoteRateLimit
            | Self::DemotionEnabled
            | Self::DamonStat => false,
        }
    }

    const fn kind(self) -> Kind {
        match self {
            // NUMA_BALANCING_NORMAL | NUMA_BALANCING_MEMORY_TIERING (include/linux/sched/sysctl.h).
            Self::NumaBalancing => Kind::Number(3),
            // Unsigned ints in the kernel.
            Self::PromoteRateLimit
            | Self::HotThreshold
            | Self::ScanSize
            | Self::ScanPeriodMin
            | Self::ScanPeriodMax
            | Self::ScanDelay => Kind::Number(u32::MAX as u64),
            Self::DemotionEnabled | Self::DamonStat | Self::TraceMigratePages => Kind::Switch,
        }
    }

    /// Converts a value to the canonical form, in which values are kept and compared: numbers
    /// without leading zeros, switches as 1 and 0. `None` for a value that the setting cannot have.
    pub fn canonical(self, value: &str) -> Option<String> {
        // The kernel marks an event that is on for its triggers only with a star.
        let value = value.trim().trim_end_matches('*');
        match self.kind() {
            Kind::Switch => match value {
                "1" | "Y" | "y" | "true" | "on" => Some("1".into()),
                "0" | "N" | "n" | "false" | "off" => Some("0".into()),
                _ => None,
            },
            Kind::Number(most) => {
                value.parse::<u64>().ok().filter(|&n| n <= most).map(|n| n.to_string())
            }
        }
    }

    /// Reads the setting in its canonical form.
    ///
    /// # Errors
    /// This kernel does not have it, it is not readable, or its value is malformed.
    pub fn read(self, roots: &Roots) -> Result<String> {
        let path = self.path(roots);
        let Some(text) = file::text_if_there(&path)? else { return Err(self.absent(roots)) };
        self.canonical(&text).ok_or_else(|| LinuxError::Format {
            path,
            line: None,
            found: format!("{:?}", text.trim()),
            expected: self.allowed(),
        })
    }

    pub(super) const fn allowed(self) -> &'static str {
        match self {
            Self::NumaBalancing => "0, 1, 2 or 3",
            Self::PromoteRateLimit => "a whole number of MB/s",
            Self::ScanSize => "a whole number of MiB",
            Self::HotThreshold | Self::ScanPeriodMin | Self::ScanPeriodMax | Self::ScanDelay => {
                "a whole number of milliseconds"
            }
            Self::DemotionEnabled | Self::DamonStat | Self::TraceMigratePages => "0 or 1",
        }
    }

    fn absent(self, roots: &Roots) -> LinuxError {
        let remedy = match self {
            Self::NumaBalancing | Self::PromoteRateLimit => {
                "boot a kernel with CONFIG_NUMA_BALANCING (the rate limit exists since 6.1)"
            }
            Self::HotThreshold
            | Self::ScanSize
            | Self::ScanPeriodMin
            | Self::ScanPeriodMax
            | Self::ScanDelay => {
                "boot a kernel of 6.1 or later with CONFIG_NUMA_BALANCING, and mount debugfs on \
                 /sys/kernel/debug"
            }
            Self::DemotionEnabled => {
                "boot a kernel of 5.15 or later with CONFIG_NUMA and CONFIG_MIGRATION"
            }
            Self::DamonStat => {
                "leave the setting alone: without CONFIG_DAMON_STAT nothing holds DAMON"
            }
            Self::TraceMigratePages => "mount tracefs on /sys/kernel/tracing",
        };
        let what = format!("this kernel has no {} ({})", self.name(), self.path(roots).display());
        LinuxError::Missing { what, remedy: remedy.into() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::topology::fixture;

    #[test]
    fn equivalent_kernel_forms_are_normalised() {
        let roots = fixture::machine("cxl-three-tier");
        assert_eq!(Knob::DemotionEnabled.read(&roots).unwrap(), "1"); // "true"
        assert_eq!(Knob::DamonStat.read(&roots).unwrap(), "1"); // "Y"
        assert_eq!(Knob::NumaBalancing.read(&roots).unwrap(), "2");
        assert_eq!(Knob::PromoteRateLimit.read(&roots).unwrap(), "65536");
        assert_eq!(Knob::TraceMigratePages.canonical("0*\n"), Some("0".into()));
        assert_eq!(Knob::NumaBalancing.canonical("4"), None);
    }

    #[test]
    fn knob_names_match_state_file() {
        let roots = fixture::machine("hmat-two-tier");
        for knob in Knob::ALL {
            assert_eq!(serde_json::to_string(&knob).unwrap(), format!("{:?}", knob.name()));
        }
        let message = Knob::DamonStat.read(&roots).unwrap_err().to_string();
        assert!(message.contains("this kernel has no damon_stat.enabled"), "{message}");
    }

    proptest! {
        #[test]
        fn the_one_form_is_its_own(text in "[0-9]{0,22}|[a-zA-Z*]{0,5}|.{0,4}") {
            for knob in Knob::ALL {
                if let Some(form) = knob.canonical(&text) {
                    prop_assert_eq!(knob.canonical(&form), Some(form));
                }
            }
        }
    }
}
