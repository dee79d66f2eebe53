//! Writes by `PAGEMAP_SCAN` and asynchronous write protection (Linux 6.7,
//! `Documentation/admin-guide/mm/pagemap.rst`). One call finds the written pages and protects them
//! again, without a gap in which a store is missed.
//!
//! It works only on memory that its own process has registered with userfaultfd
//! (`UFFD_FEATURE_WP_ASYNC`). No process can register another's memory, so this source is only for
//! programs that take part, such as one linked with Tierwise. `EPERM` on a process means that it
//! does not take part.

use std::time::Duration;

use super::walk::Walk;
use super::{AccessMonitor, AccessReport, MonitorTarget, ProcessRange, push_range, thread_cpu};
use crate::error::{LinuxError, Result};
use crate::process::Pagemap;
use crate::roots::Roots;

/// Checks that the kernel has `PAGEMAP_SCAN`. Only monitoring a process shows that it takes part.
///
/// # Errors
/// The error names the reason and the remedy.
pub fn probe(roots: &Roots) -> Result<()> {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    if Pagemap::open(roots, own)?.has_scan() {
        return Ok(());
    }
    Err(LinuxError::Missing {
        what: "this kernel has no PAGEMAP_SCAN".into(),
        remedy: "use Linux 6.7 or later, or soft-dirty bits".into(),
    })
}

/// Access monitoring with `PAGEMAP_SCAN`, of processes that take part.
#[derive(Debug)]
pub struct PagemapScan {
    walk: Walk,
    spent: Duration,
}

impl PagemapScan {
    /// A source without targets.
    ///
    /// # Errors
    /// As [`probe`].
    pub fn new(roots: &Roots) -> Result<Self> {
        probe(roots)?;
        Ok(Self { walk: Walk::new(roots), spent: Duration::ZERO })
    }
}

fn takes_no_part(error: &LinuxError) -> bool {
    let LinuxError::Process { source, .. } = error else { return false };
    source.raw_os_error() == Some(libc::EPERM)
}

impl AccessMonitor for PagemapScan {
    fn name(&self) -> &'static str {
        "pagemap-scan"
    }

    fn set_targets(&mut self, processes: &[MonitorTarget]) -> Result<()> {
        self.walk.set(processes, |_, _| Ok(()))
    }

    fn collect(&mut self, report: &mut AccessReport) -> Result<()> {
        let before = thread_cpu();
        let answer = self.walk.each(|_, walked, mappings, ranges| {
            let process = walked.process;
            ranges.clear();
            let mut registered = false;
            for mapping in mappings.iter().filter(|m| m.is_tierable() && m.writable) {
                match walked.pagemap.take_written(mapping.start, mapping.end, ranges) {
                    Err(e) if takes_no_part(&e) => (),
                    other => {
                        other?;
                        registered = true;
                    }
                }
            }
            // About a process without registered memory nothing is known.
            if registered {
                report.sampled.push(process);
            }
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

    #[test]
    fn kernel_without_it_is_reported() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        let own = std::process::id() as i32;
        fake::process(&roots, own, &[1 << 63]);
        let problem = probe(&roots).unwrap_err().to_string();
        assert!(problem.contains("Linux 6.7"), "{problem}");
    }
}
