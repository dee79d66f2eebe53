//! Picks the best way of looking that is there, and says why.

use super::{damon_paddr, damon_vaddr, idle_bitmap, pagemap_scan, perf_samples, soft_dirty};
use crate::error::Result;
use crate::roots::Roots;

/// A way of looking, by the name of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// [`damon_vaddr`].
    DamonVaddr,
    /// [`damon_paddr`].
    DamonPaddr,
    /// [`idle_bitmap`].
    IdleBitmap,
    /// [`perf_samples`].
    PerfSamples,
    /// [`soft_dirty`].
    SoftDirty,
    /// [`pagemap_scan`].
    PagemapScan,
}

impl Source {
    /// Every way.
    pub const ALL: [Self; 6] = [
        Self::DamonVaddr,
        Self::DamonPaddr,
        Self::IdleBitmap,
        Self::PerfSamples,
        Self::SoftDirty,
        Self::PagemapScan,
    ];

    /// Its name in configuration and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DamonVaddr => "damon-vaddr",
            Self::DamonPaddr => "damon-paddr",
            Self::IdleBitmap => "idle-bitmap",
            Self::PerfSamples => "perf",
            Self::SoftDirty => "soft-dirty",
            Self::PagemapScan => "pagemap-scan",
        }
    }

    /// Whether it is available.
    ///
    /// # Errors
    /// Why not, and how to get it.
    pub fn probe(self, roots: &Roots) -> Result<()> {
        match self {
            Self::DamonVaddr => damon_vaddr::probe(roots),
            Self::DamonPaddr => damon_paddr::probe(roots),
            Self::IdleBitmap => idle_bitmap::probe(roots),
            Self::PerfSamples => perf_samples::probe(roots),
            Self::SoftDirty => soft_dirty::probe(roots),
            Self::PagemapScan => pagemap_scan::probe(roots),
        }
    }

    /// What speaks for it.
    const fn merit(self) -> &'static str {
        match self {
            Self::DamonVaddr => {
                "finds hot regions of each process at a cost that does not grow with its size"
            }
            Self::DamonPaddr => "watches all of memory with one kernel thread",
            Self::IdleBitmap => "reports for every page whether it was accessed",
            Self::PerfSamples => "counts the accesses that really went to memory",
            Self::SoftDirty => "reports the pages that any process has written",
            Self::PagemapScan => "misses no write of programs that take part",
        }
    }
}

/// What was picked for one purpose, if anything, and why, in one sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectedSource {
    /// The way.
    pub way: Option<Source>,
    /// Why.
    pub why: String,
}

/// What was picked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// For what is referenced.
    pub references: SelectedSource,
    /// For samples of accesses.
    pub samples: SelectedSource,
    /// For writes.
    pub writes: SelectedSource,
}

/// Picks for each purpose the first that is there. References: DAMON on each process, because its
/// cost is bounded, before the idle bitmap, which visits every page; DAMON on physical memory,
/// which is coarser, where there is neither. Writes: soft-dirty bits only, because `PAGEMAP_SCAN`
/// needs programs that take part, which is for the operator to say.
pub fn auto(roots: &Roots) -> Selection {
    auto_by(|way| way.probe(roots))
}

/// As [`auto`], of those ways that a probe of the caller's lets pass.
pub fn auto_by(probe: impl Fn(Source) -> Result<()>) -> Selection {
    let pick = |ways: &[Source]| pick(ways, &probe);
    Selection {
        references: pick(&[Source::DamonVaddr, Source::IdleBitmap, Source::DamonPaddr]),
        samples: pick(&[Source::PerfSamples]),
        writes: pick(&[Source::SoftDirty]),
    }
}

fn pick(ways: &[Source], probe: impl Fn(Source) -> Result<()>) -> SelectedSource {
    let mut why = String::new();
    for &way in ways {
        match probe(way) {
            Ok(()) => {
                let name = way.name();
                let merit = way.merit();
                return SelectedSource {
                    way: Some(way),
                    why: format!("{name}, because it {merit}{why}"),
                };
            }
            Err(e) => why = format!("{why}; not {}, because {e}", way.name()),
        }
    }
    SelectedSource { way: None, why: why.trim_start_matches("; ").to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_best_there_is_and_why() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        let choice = auto(&roots);
        assert_eq!(choice.references.way, None);
        assert!(choice.references.why.contains("CONFIG_DAMON_SYSFS"), "{}", choice.references.why);
        assert!(choice.references.why.contains("CONFIG_IDLE_PAGE_TRACKING"));

        fs::create_dir_all(roots.sys.join("kernel/mm/page_idle")).unwrap();
        fs::write(roots.sys.join("kernel/mm/page_idle/bitmap"), "").unwrap();
        let references = auto(&roots).references;
        assert_eq!(references.way, Some(Source::IdleBitmap));
        assert!(references.why.contains("not damon-vaddr"), "{}", references.why);

        let kdamonds = roots.sys.join("kernel/mm/damon/admin/kdamonds");
        fs::create_dir_all(&kdamonds).unwrap();
        fs::write(kdamonds.join("nr_kdamonds"), "0\n").unwrap();
        let references = auto(&roots).references;
        assert_eq!(references.way, Some(Source::DamonVaddr));
        assert!(references.why.starts_with("damon-vaddr, because it finds"), "{}", references.why);
    }

    #[test]
    fn physical_monitoring_is_the_last_resort() {
        let paddr_only = |way| match way {
            Source::DamonPaddr => Ok(()),
            _ => {
                Err(crate::error::LinuxError::Missing { what: "no".into(), remedy: "none".into() })
            }
        };
        let references = auto_by(paddr_only).references;
        assert_eq!(references.way, Some(Source::DamonPaddr));
        assert!(references.why.contains("not damon-vaddr, because no"), "{}", references.why);
        assert_eq!(auto_by(paddr_only).samples.way, None);
    }

    #[test]
    fn every_way_has_its_own_name() {
        let mut names: Vec<_> = Source::ALL.iter().map(|c| c.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Source::ALL.len());
    }
}
