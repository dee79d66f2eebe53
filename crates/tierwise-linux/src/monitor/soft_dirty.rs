//! Writes by soft-dirty bits (`Documentation/admin-guide/mm/soft-dirty.rst`). Writing 4 to
//! `/proc/PID/clear_refs` clears them and write-protects the process's pages. The first store to
//! each page faults once and sets its bit again.
//!
//! The process pays for these faults. Debuggers and CRIU use the same bits: no other program may
//! clear them meanwhile.

use std::time::Duration;

use super::walk::Walk;
use super::{AccessMonitor, AccessReport, MonitorTarget, ProcessRange, push_range, thread_cpu};
use crate::error::{LinuxError, Result};
use crate::file;
use crate::process::{PageState, Task};
use crate::roots::Roots;

/// Checks that this kernel tracks writes, as far as that shows without touching a process. The file
/// exists on every kernel with `CONFIG_PROC_PAGE_MONITOR`, but without `CONFIG_MEM_SOFT_DIRTY` the
/// kernel never sets a bit again.
///
/// # Errors
/// The error names the reason and the remedy.
pub fn probe(roots: &Roots) -> Result<()> {
    let clear = roots.proc.join("self/clear_refs");
    if clear.exists() {
        return Ok(());
    }
    Err(LinuxError::Missing {
        what: format!("this kernel has no soft-dirty bits: {} is not there", clear.display()),
        remedy: "use a kernel built with CONFIG_MEM_SOFT_DIRTY (x86-64 has it)".into(),
    })
}

/// Access monitoring with soft-dirty bits.
#[derive(Debug)]
pub struct SoftDirty {
    walk: Walk,
    spent: Duration,
}

impl SoftDirty {
    /// A source without targets.
    ///
    /// # Errors
    /// As [`probe`].
    pub fn new(roots: &Roots) -> Result<Self> {
        probe(roots)?;
        Ok(Self { walk: Walk::new(roots), spent: Duration::ZERO })
    }
}

/// Clears the bits of a process.
fn clear(roots: &Roots, task: Task) -> Result<()> {
    file::write(&roots.proc.join(format!("{task}/clear_refs")), "4")
}

impl AccessMonitor for SoftDirty {
    fn name(&self) -> &'static str {
        "soft-dirty"
    }

    fn set_targets(&mut self, processes: &[MonitorTarget]) -> Result<()> {
        self.walk.set(processes, clear)
    }

    fn collect(&mut self, report: &mut AccessReport) -> Result<()> {
        let before = thread_cpu();
        let answer = self.walk.each(|roots, walked, mappings, ranges| {
            let process = walked.process;
            ranges.clear();
            for mapping in mappings.iter().filter(|m| m.is_tierable() && m.writable) {
                walked.pagemap.ranges(mapping.start, mapping.end, PageState::SoftDirty, ranges)?;
            }
            // Writes between reading and clearing are missed; stopping the process would cost more.
            clear(roots, walked.task)?;
            report.sampled.push(process);
            for r in ranges.iter() {
                push_range(
                    &mut report.written,
                    ProcessRange { process, start: r.start, end: r.end },
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
    const DIRTY: u64 = PRESENT | 1 << 55;

    #[test]
    fn written_pages_are_reported_and_cleared() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        assert!(probe(&roots).is_err());
        fs::create_dir_all(roots.proc.join("self")).unwrap();
        fs::write(roots.proc.join("self/clear_refs"), "").unwrap();
        let watched = fake::process(&roots, 7, &[DIRTY, PRESENT, DIRTY, DIRTY]);
        let refs = roots.proc.join("7/clear_refs");
        fs::write(&refs, "").unwrap();
        let mut monitor = SoftDirty::new(&roots).unwrap();
        monitor.set_targets(&[watched]).unwrap();
        assert_eq!(fs::read_to_string(&refs).unwrap(), "4");
        fs::write(&refs, "").unwrap();
        let mut report = AccessReport::default();
        monitor.collect(&mut report).unwrap();
        let process = watched.process;
        let range = |start, end| ProcessRange { process, start, end };
        assert_eq!(report.written, [range(0x1000, 0x2000), range(0x3000, 0x5000)]);
        assert_eq!(fs::read_to_string(&refs).unwrap(), "4");
    }

    #[test]
    fn reused_pid_is_not_monitored() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        fs::create_dir_all(roots.proc.join("self")).unwrap();
        fs::write(roots.proc.join("self/clear_refs"), "").unwrap();
        let mut watched = fake::process(&roots, 7, &[DIRTY]);
        fs::write(roots.proc.join("7/clear_refs"), "").unwrap();
        watched.process.start_time = 8;
        let mut monitor = SoftDirty::new(&roots).unwrap();
        monitor.set_targets(&[watched]).unwrap();
        let mut report = AccessReport::default();
        monitor.collect(&mut report).unwrap();
        assert_eq!(report, AccessReport::default());
    }
}
