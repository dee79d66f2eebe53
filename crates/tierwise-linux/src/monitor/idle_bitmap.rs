//! The idle page bitmap (`Documentation/admin-guide/mm/idle_page_tracking.rst`): one bit per page
//! frame. Writing a one clears the page's accessed bits and marks it idle. If the bit is zero
//! later, the page was accessed in between.
//!
//! It is exact to the page, and expensive: every page's frame is looked up, and its word of 64
//! pages is read and written. Frames are visited in ascending order, so that each word is read and
//! written once.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::walk::Walk;
use super::{AccessMonitor, AccessReport, MonitorTarget, ProcessRange, push_range, thread_cpu};
use crate::error::{LinuxError, Result};
use crate::process::resident::PAGE_SIZE;
use crate::roots::Roots;

fn path(roots: &Roots) -> PathBuf {
    roots.sys.join("kernel/mm/page_idle/bitmap")
}

/// Checks that the kernel has the bitmap and that this process may use it.
///
/// # Errors
/// The error names the reason and the remedy.
pub fn probe(roots: &Roots) -> Result<()> {
    if path(roots).exists() {
        return open(roots).map(|_| ());
    }
    Err(LinuxError::Missing {
        what: format!(
            "this kernel has no idle page bitmap: {} is not there",
            path(roots).display()
        ),
        remedy: "use a kernel built with CONFIG_IDLE_PAGE_TRACKING (Debian's cloud kernels are \
                 not), or DAMON"
            .into(),
    })
}

fn open(roots: &Roots) -> Result<File> {
    let path = path(roots);
    let file = OpenOptions::new().read(true).write(true).open(&path);
    file.map_err(|e| LinuxError::file(&path, "open for reading and writing", e))
}

/// Access monitoring with the idle page bitmap.
#[derive(Debug)]
pub struct IdleBitmap {
    walk: Walk,
    bitmap: File,
    frames: Vec<(u64, u64)>,
    /// Addresses of accessed pages of one process.
    accessed: Vec<u64>,
    spent: Duration,
}

impl IdleBitmap {
    /// Opens the bitmap.
    ///
    /// # Errors
    /// The error of [`probe`].
    pub fn new(roots: &Roots) -> Result<Self> {
        probe(roots)?;
        Ok(Self {
            walk: Walk::new(roots),
            bitmap: open(roots)?,
            frames: Vec::new(),
            accessed: Vec::new(),
            spent: Duration::ZERO,
        })
    }
}

/// Adds the addresses of accessed pages, and marks all pages idle. `frames` ascend.
fn take(bitmap: &File, frames: &[(u64, u64)], accessed: &mut Vec<u64>) -> std::io::Result<()> {
    for word in frames.chunk_by(|a, b| a.0 / 64 == b.0 / 64) {
        let offset = word[0].0 / 64 * 8;
        let mut bytes = [0; 8];
        // Frames beyond the end are no memory that can be idle.
        if bitmap.read_at(&mut bytes, offset)? < bytes.len() {
            continue;
        }
        let idle = u64::from_ne_bytes(bytes);
        let mut ours = 0;
        for &(frame, address) in word {
            let bit = 1 << (frame % 64);
            ours |= bit;
            if idle & bit == 0 {
                accessed.push(address);
            }
        }
        // Zeros leave other pages as they are.
        bitmap.write_at(&ours.to_ne_bytes(), offset)?;
    }
    Ok(())
}

/// Returns an error of the machine: without the bitmap no process can be monitored.
fn failed(path: &Path, error: &std::io::Error) -> LinuxError {
    LinuxError::Missing {
        what: format!("{} cannot be read and written: {error}", path.display()),
        remedy: "choose another access monitoring source".into(),
    }
}

impl AccessMonitor for IdleBitmap {
    fn name(&self) -> &'static str {
        "idle-bitmap"
    }

    fn set_targets(&mut self, processes: &[MonitorTarget]) -> Result<()> {
        self.walk.set(processes, |_, _| Ok(()))
    }

    fn collect(&mut self, report: &mut AccessReport) -> Result<()> {
        let before = thread_cpu();
        let Self { walk, bitmap, frames, accessed, .. } = self;
        let path = path(&walk.roots);
        let answer = walk.each(|_, walked, mappings, _| {
            frames.clear();
            accessed.clear();
            for mapping in mappings.iter().filter(|m| m.is_tierable()) {
                walked.pagemap.frames(mapping.start, mapping.end, frames)?;
            }
            frames.sort_unstable();
            take(bitmap, frames, accessed).map_err(|e| failed(&path, &e))?;
            accessed.sort_unstable();
            let process = walked.process;
            report.sampled.push(process);
            for &start in accessed.iter() {
                push_range(
                    &mut report.referenced,
                    ProcessRange { process, start, end: start + PAGE_SIZE },
                );
            }
            Ok(())
        });
        self.spent += thread_cpu().saturating_sub(before);
        answer
    }

    fn stop(&mut self) -> Result<()> {
        self.walk.clear();
        Ok(())
    }

    fn cpu_time(&mut self) -> Result<Duration> {
        Ok(self.spent)
    }
}

#[cfg(test)]
mod tests {
    use super::super::walk::fake;
    use super::*;
    use std::fs;

    const PRESENT: u64 = 1 << 63;

    #[test]
    fn pages_without_idle_bit_were_referenced() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        assert!(probe(&roots).unwrap_err().to_string().contains("CONFIG_IDLE_PAGE_TRACKING"));
        fs::create_dir_all(roots.sys.join("kernel/mm/page_idle")).unwrap();
        // Frames 0 to 127. The kernel has found frame 70 accessed since it was marked idle.
        let words = [u64::MAX, !(1u64 << 6)];
        fs::write(path(&roots), words.map(u64::to_ne_bytes).concat()).unwrap();
        let entries = [PRESENT | 70, PRESENT | 3, 0, PRESENT | 900];
        let watched = fake::process(&roots, 7, &entries);
        let mut monitor = IdleBitmap::new(&roots).unwrap();
        monitor.set_targets(&[watched]).unwrap();
        let mut report = AccessReport::default();
        monitor.collect(&mut report).unwrap();
        let process = watched.process;
        assert_eq!(report.sampled, [process]);
        assert_eq!(report.referenced, [ProcessRange { process, start: 0x1000, end: 0x2000 }]);
        // Only the process's pages are marked idle. A plain file keeps the written word, while the
        // kernel would add it to the old one.
        let after = fs::read(path(&roots)).unwrap();
        assert_eq!(after, [1u64 << 3, 1 << 6].map(u64::to_ne_bytes).concat());

        fs::remove_dir_all(roots.proc.join("7")).unwrap();
        report.clear();
        monitor.collect(&mut report).unwrap();
        assert_eq!(report, AccessReport::default());
    }
}
