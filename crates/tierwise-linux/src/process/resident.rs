//! Pages of a process that are present or written, and their page frames. `PAGEMAP_SCAN` finds them
//! if the kernel has it (Linux 6.7), else `/proc/PID/pagemap`, entry by entry
//! (`Documentation/admin-guide/mm/pagemap.rst`).

use std::fmt::Write;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::syscall::{self, ScanArg, ScanRegion};
use super::task::Task;
use crate::error::{LinuxError, Result};
use crate::roots::Roots;

/// Bytes per base page. Tierwise runs on x86-64 and on arm64 kernels with 4 KiB pages.
pub const PAGE_SIZE: u64 = 4096;

/// Regions per `PAGEMAP_SCAN`: 24 bytes each, 12 KiB. With that many, the scan costs more than
/// entering the kernel.
const SCAN_REGIONS: usize = 512;
/// `pagemap` entries per read: 32 KiB, 16 MiB of address space, so that one read stays below a
/// millisecond.
const ENTRIES: usize = 4096;

// Categories of PAGEMAP_SCAN (linux/fs.h).
const PAGE_IS_WRITTEN: u64 = 1 << 1;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_PFNZERO: u64 = 1 << 5;
const PAGE_IS_HUGE: u64 = 1 << 6;
const PAGE_IS_SOFT_DIRTY: u64 = 1 << 7;
const PM_SCAN_WP_MATCHING: u64 = 1 << 0;
const PM_SCAN_CHECK_WPASYNC: u64 = 1 << 1;

// Bits of a pagemap entry.
const ENTRY_PRESENT: u64 = 1 << 63;
const ENTRY_SOFT_DIRTY: u64 = 1 << 55;
const ENTRY_PFN: u64 = (1 << 55) - 1;

/// State of the pages to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageState {
    /// In memory. The shared zero page is left out if the kernel reports it.
    Present,
    /// In memory and written since soft-dirty bits were last cleared.
    SoftDirty,
}

impl PageState {
    fn arg(self) -> ScanArg {
        // Inverted, so that a page must not be the zero page.
        let (category_inverted, zero) = (PAGE_IS_PFNZERO, PAGE_IS_PFNZERO);
        let category_mask = zero
            | match self {
                Self::Present => PAGE_IS_PRESENT,
                Self::SoftDirty => PAGE_IS_PRESENT | PAGE_IS_SOFT_DIRTY,
            };
        ScanArg {
            category_inverted,
            category_mask,
            return_mask: PAGE_IS_HUGE,
            ..ScanArg::default()
        }
    }

    fn bits(self) -> u64 {
        match self {
            Self::Present => ENTRY_PRESENT,
            Self::SoftDirty => ENTRY_PRESENT | ENTRY_SOFT_DIRTY,
        }
    }
}

/// A range of pages of one state, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddressRange {
    /// First address.
    pub start: u64,
    /// First address after the range.
    pub end: u64,
    /// True if mapped as huge pages (2 MiB on x86). Only `PAGEMAP_SCAN` reports it; false
    /// otherwise.
    pub huge: bool,
}

/// An open `/proc/PID/pagemap`, with the buffers to read it. The file stays bound to the address
/// space that it was opened on: once the process has ended or called exec, it reads as empty, even
/// if another process has the pid. One object serves all processes and opens the file again for
/// each use ([`Pagemap::reopen`]). A file kept open per process would let a tenant that forks use
/// up the file descriptors and the memory of all tenants.
#[derive(Debug)]
pub struct Pagemap {
    path: PathBuf,
    name: String,
    task: Task,
    file: File,
    scan: bool,
    regions: Box<[ScanRegion]>,
    entries: Box<[u8]>,
}

impl Pagemap {
    /// Opens the file, and checks if the kernel has `PAGEMAP_SCAN`.
    ///
    /// # Errors
    /// The process does not exist, or `CAP_SYS_PTRACE` is missing.
    pub fn open(roots: &Roots, task: impl Into<Task>) -> Result<Self> {
        let task = task.into();
        let name = format!("{task}/pagemap");
        let path = roots.proc.join(&name);
        let file = File::open(&path).map_err(|e| LinuxError::file(&path, "open", e))?;
        let regions = vec![ScanRegion::default(); SCAN_REGIONS].into_boxed_slice();
        let mut pagemap =
            Self { path, name, task, file, scan: true, regions, entries: Box::default() };
        // An empty range only shows if the kernel knows the request.
        let known = syscall::pagemap_scan(
            &pagemap.file,
            &mut PageState::Present.arg(),
            &mut pagemap.regions,
        );
        if known.is_err() {
            pagemap.read_entries_instead();
        }
        Ok(pagemap)
    }

    /// Opens the page map of a process in place of `last`, whose file is closed and whose buffers
    /// are kept.
    ///
    /// # Errors
    /// As [`Pagemap::open`].
    pub fn of<'a>(last: &'a mut Option<Self>, roots: &Roots, task: Task) -> Result<&'a mut Self> {
        if let Some(known) = last {
            known.reopen(roots, task)?;
        }
        match last {
            Some(known) => Ok(known),
            None => Ok(last.insert(Self::open(roots, task)?)),
        }
    }

    fn read_entries_instead(&mut self) {
        self.scan = false;
        self.entries = vec![0; ENTRIES * 8].into_boxed_slice();
    }

    /// Opens the page map of another process in its place.
    ///
    /// # Errors
    /// The process does not exist (any more), or may not be read.
    pub fn reopen(&mut self, roots: &Roots, task: Task) -> Result<()> {
        self.name.clear();
        // Writing to a String does not fail.
        let _ = write!(self.name, "{task}/pagemap");
        self.path.clear();
        self.path.push(&roots.proc);
        self.path.push(&self.name);
        self.task = task;
        self.file = File::open(&self.path).map_err(|e| LinuxError::file(&self.path, "open", e))?;
        Ok(())
    }

    /// True if the kernel has `PAGEMAP_SCAN`.
    pub fn has_scan(&self) -> bool {
        self.scan
    }

    /// Adds the pages in a state between two addresses to `out`, ascending, neighbours merged.
    ///
    /// # Errors
    /// The kernel refuses, for instance because the process has ended.
    pub fn ranges(
        &mut self,
        start: u64,
        end: u64,
        pages: PageState,
        out: &mut Vec<AddressRange>,
    ) -> Result<()> {
        if self.scan {
            return self.scan(start, end, pages.arg(), out);
        }
        let bits = pages.bits();
        self.entries(start, end, |address, entry| {
            if entry & bits == bits {
                push(out, AddressRange { start: address, end: address + PAGE_SIZE, huge: false });
            }
        })
    }

    /// Adds the pages written since the last call, and write-protects them again. This works only
    /// on memory that its own process has registered with userfaultfd for asynchronous write
    /// protection (`UFFD_FEATURE_WP_ASYNC`).
    ///
    /// # Errors
    /// `EPERM` if the memory is not registered; or the kernel has no `PAGEMAP_SCAN`.
    pub fn take_written(
        &mut self,
        start: u64,
        end: u64,
        out: &mut Vec<AddressRange>,
    ) -> Result<()> {
        if !self.scan {
            return Err(LinuxError::Missing {
                what: "this kernel has no PAGEMAP_SCAN".into(),
                remedy: "use Linux 6.7 or later, or soft-dirty bits".into(),
            });
        }
        let arg = ScanArg {
            flags: PM_SCAN_WP_MATCHING | PM_SCAN_CHECK_WPASYNC,
            category_mask: PAGE_IS_WRITTEN,
            return_mask: PAGE_IS_WRITTEN | PAGE_IS_HUGE,
            ..ScanArg::default()
        };
        self.scan(start, end, arg, out)
    }

    fn scan(
        &mut self,
        start: u64,
        end: u64,
        arg: ScanArg,
        out: &mut Vec<AddressRange>,
    ) -> Result<()> {
        let mut at = start;
        while at < end {
            let mut arg = ScanArg { start: at, end, ..arg };
            let found = syscall::pagemap_scan(&self.file, &mut arg, &mut self.regions)
                .map_err(|e| self.failed("PAGEMAP_SCAN", e))?;
            for region in &self.regions[..found.min(self.regions.len())] {
                let huge = region.categories & PAGE_IS_HUGE != 0;
                push(out, AddressRange { start: region.start, end: region.end, huge });
            }
            // A walk that does not advance would never end.
            if arg.walk_end <= at {
                break;
            }
            at = arg.walk_end;
        }
        Ok(())
    }

    /// Adds the page frame number and address of every present page. Needs `CAP_SYS_ADMIN`: without
    /// it the kernel shows every frame as 0, which is left out.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn frames(&mut self, start: u64, end: u64, out: &mut Vec<(u64, u64)>) -> Result<()> {
        if self.entries.is_empty() {
            self.entries = vec![0; ENTRIES * 8].into_boxed_slice();
        }
        self.entries(start, end, |address, entry| {
            let frame = entry & ENTRY_PFN;
            if entry & ENTRY_PRESENT != 0 && frame != 0 {
                out.push((frame, address));
            }
        })
    }

    /// Calls `each` with every entry. Stops at the end of the file, which for an address space that
    /// no longer exists is its start.
    fn entries(&mut self, start: u64, end: u64, mut each: impl FnMut(u64, u64)) -> Result<()> {
        let mut at = start / PAGE_SIZE;
        let last = end.div_ceil(PAGE_SIZE);
        while at < last {
            let wanted = (last - at).min(ENTRIES as u64) as usize * 8;
            let read = self.file.read_at(&mut self.entries[..wanted], at * 8);
            let read = read.map_err(|e| self.failed("pagemap", e))?;
            let (entries, _) = self.entries[..read].as_chunks::<8>();
            for (i, entry) in entries.iter().enumerate() {
                each((at + i as u64) * PAGE_SIZE, u64::from_ne_bytes(*entry));
            }
            if entries.is_empty() {
                break;
            }
            at += entries.len() as u64;
        }
        Ok(())
    }

    fn failed(&self, call: &'static str, source: io::Error) -> LinuxError {
        match call {
            "pagemap" => LinuxError::file(&self.path, "read", source),
            _ => LinuxError::Process { pid: self.task.pid(), call, source },
        }
    }
}

/// Adds a range, or extends the last one.
fn push(out: &mut Vec<AddressRange>, range: AddressRange) {
    match out.last_mut() {
        Some(last) if last.end == range.start && last.huge == range.huge => last.end = range.end,
        _ => out.push(range),
    }
}

/// Finds the nodes of a process's pages. `status[i]` becomes a node, `-ENOENT` if no page is
/// present, or another negative error number.
///
/// # Errors
/// The process has ended, or `CAP_SYS_PTRACE` is missing.
pub fn nodes(pid: i32, addresses: &[usize], status: &mut [i32]) -> Result<()> {
    syscall::move_pages(pid, addresses, None, status, 0).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pagemap of a fake process: entries from address 0.
    fn fake(entries: &[u64]) -> (tempfile::TempDir, Pagemap) {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        std::fs::create_dir_all(roots.proc.join("7")).unwrap();
        let bytes: Vec<u8> = entries.iter().flat_map(|e| e.to_ne_bytes()).collect();
        std::fs::write(roots.proc.join("7/pagemap"), bytes).unwrap();
        let pagemap = Pagemap::open(&roots, 7).unwrap();
        (tree, pagemap)
    }

    #[test]
    fn entries_become_ranges_and_frames() {
        let dirty = ENTRY_PRESENT | ENTRY_SOFT_DIRTY;
        let (_tree, mut pagemap) =
            fake(&[0, ENTRY_PRESENT | 5, dirty | 6, 0, ENTRY_PRESENT, ENTRY_SOFT_DIRTY]);
        assert!(!pagemap.has_scan());
        let range = |first: u64, last: u64| AddressRange {
            start: first * PAGE_SIZE,
            end: last * PAGE_SIZE,
            huge: false,
        };
        let mut out = Vec::new();
        pagemap.ranges(0, 100 * PAGE_SIZE, PageState::Present, &mut out).unwrap();
        assert_eq!(out, [range(1, 3), range(4, 5)]);
        out.clear();
        pagemap.ranges(0, 6 * PAGE_SIZE, PageState::SoftDirty, &mut out).unwrap();
        assert_eq!(out, [range(2, 3)]);
        let mut frames = Vec::new();
        pagemap.frames(0, 6 * PAGE_SIZE, &mut frames).unwrap();
        assert_eq!(frames, [(5, PAGE_SIZE), (6, 2 * PAGE_SIZE)]);
        let error = pagemap.take_written(0, PAGE_SIZE, &mut out).unwrap_err();
        assert!(error.to_string().contains("Linux 6.7"), "{error}");
    }

    #[test]
    fn both_ways_agree_on_this_process() {
        // 64 pages, every other one touched.
        let memory = vec![0u8; 66 * 4096];
        let start = (memory.as_ptr() as u64).div_ceil(PAGE_SIZE) * PAGE_SIZE;
        let end = start + 64 * PAGE_SIZE;
        let first = (start - memory.as_ptr() as u64) as usize;
        let mut memory = memory;
        for page in (0..64).step_by(2) {
            memory[first + page * 4096] = 1;
        }
        let pid = std::process::id() as i32;
        let mut pagemap = Pagemap::open(&Roots::default(), pid).unwrap();
        let (mut by_kernel, mut by_entry) = (Vec::new(), Vec::new());
        pagemap.ranges(start, end, PageState::Present, &mut by_kernel).unwrap();
        pagemap.read_entries_instead();
        pagemap.ranges(start, end, PageState::Present, &mut by_entry).unwrap();
        let bytes = |ranges: &[AddressRange]| ranges.iter().map(|r| r.end - r.start).sum::<u64>();
        // Huge pages may have made untouched neighbours present, but both methods report the same.
        assert_eq!(bytes(&by_kernel), bytes(&by_entry));
        assert!(bytes(&by_entry) >= 32 * PAGE_SIZE);
        let mut status = [i32::MIN];
        nodes(pid, &[start as usize], &mut status).unwrap();
        assert!(status[0] >= 0);
        assert_eq!(memory[first], 1);
    }
}
