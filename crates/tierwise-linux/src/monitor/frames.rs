//! Attribution of DAMON's physical regions to processes, by the page tables of the monitored
//! processes.
//!
//! Neighbouring frames may belong to any process. The access count of a piece of [`PIECE`] bytes of
//! addresses is therefore the mean over the regions of its frames. Reading page tables takes as
//! long as they are large: with more than [`PAGES`] pages the processes take turns.

use super::walk::Walk;
use super::{AccessReport, MonitorTarget, ProcessRegion};
use crate::damon::HostRegion;
use crate::damon::regions::find;
use crate::error::{LinuxError, Result};
use crate::process::resident::PAGE_SIZE;
use crate::process::{Pagemap, Process};
use crate::roots::Roots;

/// Bytes of addresses that get one access count: an eighth of a huge page. DAMON's regions of
/// physical memory are megabytes, so that smaller pieces would not be more exact.
pub(super) const PIECE: u64 = 256 << 10;

/// Pages looked up per collection, to which the rest of the current process comes: 4 GiB of memory,
/// whose page tables take some ten milliseconds.
pub(super) const PAGES: usize = 1 << 20;

/// Looks up the frames of processes.
#[derive(Debug)]
pub(super) struct Frames {
    walk: Walk,
    /// Index of the next process.
    next: usize,
    /// Frame and address of each page.
    pages: Vec<(u64, u64)>,
}

impl Frames {
    pub(super) fn new(roots: &Roots) -> Self {
        Self { walk: Walk::new(roots), next: 0, pages: Vec::new() }
    }

    /// Sets the processes whose frames are looked up.
    pub(super) fn set(&mut self, processes: &[MonitorTarget]) -> Result<()> {
        self.walk.set(processes, |_, _| Ok(()))
    }

    /// Adds regions of processes' addresses to a report of physical memory.
    pub(super) fn find_owners(&mut self, report: &mut AccessReport) -> Result<()> {
        let (first, mut index, mut monitored, mut next) = (self.next, 0, 0, 0);
        let pages = &mut self.pages;
        let AccessReport { sampled, regions, physical, .. } = report;
        let mut hidden = None;
        self.walk.each(|_, walked, mappings, _| {
            index += 1;
            if index <= first || next > 0 {
                return Ok(());
            }
            if monitored > PAGES {
                next = index - 1;
                return Ok(());
            }
            pages.clear();
            for mapping in mappings.iter().filter(|m| m.is_tierable()) {
                walked.pagemap.frames(mapping.start, mapping.end, pages)?;
            }
            if pages.is_empty() && has_memory(walked.pagemap, mappings)? {
                hidden = Some(walked.process);
            }
            monitored += pages.len();
            sampled.push(walked.process);
            add_pieces(walked.process, pages, physical, regions);
            Ok(())
        })?;
        self.next = next;
        hidden.map_or(Ok(()), |process| Err(frames_hidden(process)))
    }
}

fn has_memory(pagemap: &mut Pagemap, mappings: &[crate::process::Mapping]) -> Result<bool> {
    let mut ranges = Vec::new();
    for mapping in mappings.iter().filter(|m| m.is_tierable()) {
        pagemap.ranges(
            mapping.start,
            mapping.end,
            crate::process::PageState::Present,
            &mut ranges,
        )?;
    }
    Ok(!ranges.is_empty())
}

fn frames_hidden(process: Process) -> LinuxError {
    LinuxError::Missing {
        what: format!("the kernel hides the frames of process {}", process.pid),
        remedy: "start tierwised with CAP_SYS_ADMIN (its systemd unit does), or monitor processes \
                 with DAMON (damon-vaddr)"
            .into(),
    }
}

/// Adds the pages of a process, ascending by address, as pieces with the mean access count of their
/// frames' regions.
fn add_pieces(
    process: Process,
    pages: &[(u64, u64)],
    physical: &[HostRegion],
    out: &mut Vec<ProcessRegion>,
) {
    for piece in pages.chunk_by(|a, b| a.1 / PIECE == b.1 / PIECE) {
        let of = |&(frame, _): &(u64, u64)| find(physical, frame * PAGE_SIZE);
        let known = || piece.iter().filter_map(of);
        let count = known().count();
        if count == 0 {
            continue;
        }
        let sum: u64 = known().map(|region| u64::from(region.nr_accesses)).sum();
        let mean = (sum as f64 / count as f64).round() as u32;
        let age = known().map(|region| region.age).min().unwrap_or(0);
        let start = piece[0].1 / PIECE * PIECE;
        let region = HostRegion { start, end: start + PIECE, nr_accesses: mean, age };
        out.push(ProcessRegion { process, region });
    }
}

#[cfg(test)]
mod tests {
    use super::super::walk::fake;
    use super::*;

    /// A present page in a frame.
    const fn entry(frame: u64) -> u64 {
        1 << 63 | frame
    }

    fn region(start: u64, end: u64, nr_accesses: u32) -> HostRegion {
        HostRegion { start: start * PAGE_SIZE, end: end * PAGE_SIZE, nr_accesses, age: 3 }
    }

    fn own(entries: &[u64]) -> (tempfile::TempDir, Frames, MonitorTarget) {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        let watched = fake::process(&roots, std::process::id() as i32, entries);
        let mut frames = Frames::new(&roots);
        frames.set(&[watched]).unwrap();
        (tree, frames, watched)
    }

    #[test]
    fn addresses_inherit_their_frames_heat() {
        // The first piece has 63 pages and the second has one. Every third frame lies in the hot
        // region.
        let entries: Vec<u64> =
            (0..64).map(|n| entry(if n % 3 == 0 { 100 + n } else { 900 + n })).collect();
        let (_tree, mut frames, watched) = own(&entries);
        let mut report = AccessReport {
            physical: vec![region(0, 500, 20), region(500, 2000, 2)],
            ..AccessReport::default()
        };
        frames.find_owners(&mut report).unwrap();
        assert_eq!(report.sampled, [watched.process]);
        let found: Vec<_> =
            report.regions.iter().map(|r| (r.region.start, r.region.nr_accesses)).collect();
        // 21 of 63 frames are hot: the mean is 8. The last frame is hot.
        assert_eq!(found, [(0, 8), (PIECE, 20)]);
    }

    #[test]
    fn hidden_frames_are_reported() {
        let (_tree, mut frames, watched) = own(&[entry(0), entry(0)]);
        let problem = frames.find_owners(&mut AccessReport::default()).unwrap_err().to_string();
        let pid = watched.process.pid.to_string();
        assert!(problem.contains("CAP_SYS_ADMIN") && problem.contains(&pid), "{problem}");
    }

    #[test]
    fn process_without_memory_is_no_error() {
        let (_tree, mut frames, _) = own(&[0, 0]);
        let mut report = AccessReport::default();
        frames.find_owners(&mut report).unwrap();
        assert!(report.regions.is_empty());
    }
}
