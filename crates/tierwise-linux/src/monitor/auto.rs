//! Selection of the best available access monitoring source, with the reason.

use super::{
    damon_paddr, damon_vaddr, hint_faults, idle_bitmap, pagemap_scan, perf_samples, soft_dirty,
};
use crate::damon::Admin;
use crate::error::Result;
use crate::roots::Roots;

/// An access monitoring source. Its name is that of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessSource {
    /// [`damon_vaddr`].
    DamonVaddr,
    /// [`damon_paddr`].
    DamonPaddr,
    /// [`hint_faults`], and [`damon_vaddr`] for fast pages.
    HintFaults,
    /// [`idle_bitmap`].
    IdleBitmap,
    /// [`perf_samples`].
    PerfSamples,
    /// [`soft_dirty`].
    SoftDirty,
    /// [`pagemap_scan`].
    PagemapScan,
}

impl AccessSource {
    /// Every source.
    pub const ALL: [Self; 7] = [
        Self::DamonVaddr,
        Self::DamonPaddr,
        Self::HintFaults,
        Self::IdleBitmap,
        Self::PerfSamples,
        Self::SoftDirty,
        Self::PagemapScan,
    ];

    /// Name in configuration and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DamonVaddr => "damon-vaddr",
            Self::DamonPaddr => "damon-paddr",
            Self::HintFaults => "hint-faults",
            Self::IdleBitmap => "idle-bitmap",
            Self::PerfSamples => "perf",
            Self::SoftDirty => "soft-dirty",
            Self::PagemapScan => "pagemap-scan",
        }
    }

    /// Checks that the source is available.
    ///
    /// # Errors
    /// The error names the reason and the remedy.
    pub fn probe(self, roots: &Roots) -> Result<()> {
        match self {
            Self::DamonVaddr => damon_vaddr::probe(roots),
            Self::DamonPaddr => damon_paddr::probe(roots),
            Self::HintFaults => hint_faults::probe(roots).and_then(|()| damon_vaddr::probe(roots)),
            Self::IdleBitmap => idle_bitmap::probe(roots),
            Self::PerfSamples => perf_samples::probe(roots),
            Self::SoftDirty => soft_dirty::probe(roots),
            Self::PagemapScan => pagemap_scan::probe(roots),
        }
    }

    /// Checks all that [`AccessSource::probe`] does but DAMON's operations: the kernel's symbols,
    /// which name them, took 0.08 s of an emulated CPU, half as long as the rest of a daemon's
    /// start. Where they are missing, the first turn of monitoring fails.
    ///
    /// # Errors
    /// The error names the reason and the remedy.
    pub fn probe_quickly(self, roots: &Roots) -> Result<()> {
        match self {
            Self::DamonVaddr | Self::DamonPaddr => Admin::probe(roots),
            Self::HintFaults => hint_faults::probe(roots).and_then(|()| Admin::probe(roots)),
            other => other.probe(roots),
        }
    }

    /// Reason to select the source.
    const fn reason(self) -> &'static str {
        match self {
            Self::DamonVaddr => {
                "finds hot regions of each process at a cost that does not grow with its size"
            }
            Self::DamonPaddr => "monitors all memory with one kernel thread",
            Self::HintFaults => {
                "reports for every slow page how soon it was accessed after it was poisoned"
            }
            Self::IdleBitmap => "reports for every page whether it was accessed",
            Self::PerfSamples => "counts the accesses that really went to memory",
            Self::SoftDirty => "reports the pages that any process has written",
            Self::PagemapScan => "misses no write of programs that take part",
        }
    }
}

/// Source selected for one purpose, if any, and the reason in one sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectedSource {
    /// Selected source; `None` if none is available.
    pub source: Option<AccessSource>,
    /// Reason for the selection, and for passing over better sources.
    pub why: String,
}

/// The sources selected for each purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceSelection {
    /// For reference bits.
    pub references: SelectedSource,
    /// For samples of accesses.
    pub samples: SelectedSource,
    /// For written pages.
    pub writes: SelectedSource,
}

/// Selects the first available source for each purpose. References: DAMON on each process, because
/// its cost is bounded; else the idle page bitmap, which visits every page; else DAMON on physical
/// memory, which is coarser. Writes: soft-dirty bits only, because `PAGEMAP_SCAN` needs programs
/// that take part, and only the operator knows of them.
pub fn auto(roots: &Roots) -> SourceSelection {
    auto_by(|source| source.probe(roots))
}

/// Selects as [`auto`] does, with the caller's own probe.
pub fn auto_by(probe: impl Fn(AccessSource) -> Result<()>) -> SourceSelection {
    let select = |sources: &[AccessSource]| select(sources, &probe);
    SourceSelection {
        references: select(&[
            AccessSource::DamonVaddr,
            AccessSource::IdleBitmap,
            AccessSource::DamonPaddr,
        ]),
        samples: select(&[AccessSource::PerfSamples]),
        writes: select(&[AccessSource::SoftDirty]),
    }
}

fn select(sources: &[AccessSource], probe: impl Fn(AccessSource) -> Result<()>) -> SelectedSource {
    let mut why = String::new();
    for &source in sources {
        match probe(source) {
            Ok(()) => {
                let name = source.name();
                let reason = source.reason();
                return SelectedSource {
                    source: Some(source),
                    why: format!("{name}, because it {reason}{why}"),
                };
            }
            Err(e) => why = format!("{why}; not {}, because {e}", source.name()),
        }
    }
    SelectedSource { source: None, why: why.trim_start_matches("; ").to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_best_there_is_and_why() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        let selection = auto(&roots);
        assert_eq!(selection.references.source, None);
        assert!(
            selection.references.why.contains("CONFIG_DAMON_SYSFS"),
            "{}",
            selection.references.why
        );
        assert!(selection.references.why.contains("CONFIG_IDLE_PAGE_TRACKING"));

        fs::create_dir_all(roots.sys.join("kernel/mm/page_idle")).unwrap();
        fs::write(roots.sys.join("kernel/mm/page_idle/bitmap"), "").unwrap();
        let references = auto(&roots).references;
        assert_eq!(references.source, Some(AccessSource::IdleBitmap));
        assert!(references.why.contains("not damon-vaddr"), "{}", references.why);

        let kdamonds = roots.sys.join("kernel/mm/damon/admin/kdamonds");
        fs::create_dir_all(&kdamonds).unwrap();
        fs::write(kdamonds.join("nr_kdamonds"), "0\n").unwrap();
        let references = auto(&roots).references;
        assert_eq!(references.source, Some(AccessSource::DamonVaddr));
        assert!(references.why.starts_with("damon-vaddr, because it finds"), "{}", references.why);
    }

    #[test]
    fn physical_monitoring_is_the_last_resort() {
        let paddr_only = |source| match source {
            AccessSource::DamonPaddr => Ok(()),
            _ => {
                Err(crate::error::LinuxError::Missing { what: "no".into(), remedy: "none".into() })
            }
        };
        let references = auto_by(paddr_only).references;
        assert_eq!(references.source, Some(AccessSource::DamonPaddr));
        assert!(references.why.contains("not damon-vaddr, because no"), "{}", references.why);
        assert_eq!(auto_by(paddr_only).samples.source, None);
    }

    #[test]
    fn every_source_has_its_own_name() {
        let mut names: Vec<_> = AccessSource::ALL.iter().map(|c| c.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), AccessSource::ALL.len());
    }
}
