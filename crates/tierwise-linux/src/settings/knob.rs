//! The kernel's settings that Tierwise may change, and only when told to.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::{LinuxError, Result};
use crate::file;
use crate::roots::Roots;

/// A setting of the whole machine. Its name in a state file is the kernel's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Knob {
    /// `kernel.numa_balancing`: 0 off, 1 between nodes, 2 promotion between tiers, 3 both
    /// (`Documentation/admin-guide/sysctl/kernel.rst`).
    #[serde(rename = "numa_balancing")]
    NumaBalancing,
    /// `kernel.numa_balancing_promote_rate_limit_MBps`: most that is promoted, in MB/s for each
    /// node.
    #[serde(rename = "numa_balancing_promote_rate_limit_MBps")]
    PromoteRateLimit,
    /// `hot_threshold_ms` of NUMA balancing in debugfs: pages are promoted that were accessed within
    /// this time after they were poisoned.
    #[serde(rename = "hot_threshold_ms")]
    HotThreshold,
    /// `scan_size_mb` of NUMA balancing in debugfs: the size of the chunks that are poisoned.
    #[serde(rename = "scan_size_mb")]
    ScanSize,
    /// `scan_period_min_ms` of NUMA balancing in debugfs: the shortest time between two chunks of a
    /// thread, divided by the number of chunks of its memory.
    #[serde(rename = "scan_period_min_ms")]
    ScanPeriodMin,
    /// `scan_period_max_ms` of NUMA balancing in debugfs: as `scan_period_min_ms`, the longest time.
    #[serde(rename = "scan_period_max_ms")]
    ScanPeriodMax,
    /// `/sys/kernel/mm/numa/demotion_enabled`: reclaim demotes before it swaps.
    #[serde(rename = "demotion_enabled")]
    DemotionEnabled,
    /// `damon_stat.enabled`: the kernel's own use of DAMON, which leaves room for nobody else.
    #[serde(rename = "damon_stat.enabled")]
    DamonStat,
    /// The tracepoint `migrate:mm_migrate_pages`.
    #[serde(rename = "mm_migrate_pages")]
    TraceMigratePages,
}

/// What may be written.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// On or off; the kernel shows `Y`, `true` or `1`.
    Switch,
    /// A whole number up to this.
    Number(u64),
}

impl Knob {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::NumaBalancing,
        Self::PromoteRateLimit,
        Self::HotThreshold,
        Self::ScanSize,
        Self::ScanPeriodMin,
        Self::ScanPeriodMax,
        Self::DemotionEnabled,
        Self::DamonStat,
        Self::TraceMigratePages,
    ];

    /// The kernel's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NumaBalancing => "numa_balancing",
            Self::PromoteRateLimit => "numa_balancing_promote_rate_limit_MBps",
            Self::HotThreshold => "hot_threshold_ms",
            Self::ScanSize => "scan_size_mb",
            Self::ScanPeriodMin => "scan_period_min_ms",
            Self::ScanPeriodMax => "scan_period_max_ms",
            Self::DemotionEnabled => "demotion_enabled",
            Self::DamonStat => "damon_stat.enabled",
            Self::TraceMigratePages => "mm_migrate_pages",
        }
    }

    /// Its file.
    pub fn path(self, roots: &Roots) -> PathBuf {
        match self {
            Self::NumaBalancing | Self::PromoteRateLimit => {
                roots.proc.join("sys/kernel").join(self.name())
            }
            Self::HotThreshold | Self::ScanSize | Self::ScanPeriodMin | Self::ScanPeriodMax => {
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
            | Self::ScanPeriodMax => Kind::Number(u32::MAX as u64),
            Self::DemotionEnabled | Self::DamonStat | Self::TraceMigratePages => Kind::Switch,
        }
    }

    /// A value in the one form in which values are kept and compared: numbers without zeros in
    /// front, switches as 1 and 0. `None` for what the setting cannot be.
    pub fn canonical(self, value: &str) -> Option<String> {
        // An event that is on for its triggers only is shown with a star.
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

    /// What it is set to, in its one form.
    ///
    /// # Errors
    /// This kernel does not have it, it must not be read, or something else is written there.
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
            Self::HotThreshold | Self::ScanPeriodMin | Self::ScanPeriodMax => {
                "a whole number of milliseconds"
            }
            Self::ScanSize => "a whole number of MiB",
            Self::DemotionEnabled | Self::DamonStat | Self::TraceMigratePages => "0 or 1",
        }
    }

    fn absent(self, roots: &Roots) -> LinuxError {
        let remedy = match self {
            Self::NumaBalancing | Self::PromoteRateLimit => {
                "boot a kernel with CONFIG_NUMA_BALANCING (the rate limit is there since 6.1)"
            }
            Self::HotThreshold | Self::ScanSize | Self::ScanPeriodMin | Self::ScanPeriodMax => {
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
        let said = Knob::DamonStat.read(&roots).unwrap_err().to_string();
        assert!(said.contains("this kernel has no damon_stat.enabled"), "{said}");
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
