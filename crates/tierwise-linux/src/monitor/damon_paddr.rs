//! DAMON on physical memory: one kdamond for any number of processes. It finds how hot ranges of
//! frames are. [`super::frames`] finds the processes that map them through `/proc/PID/pagemap`,
//! which shows frames only with `CAP_SYS_ADMIN`.
//!
//! The kernel's memory cgroup filters are of no use here: the kernel applies them when it acts on a
//! region's pages, and a filter does not change the regions. They are of use where DAMON itself
//! moves pages ([`crate::migrate::page_cache::damos`]).

use std::path::Path;
use std::time::Duration;

use tierwise_core::observe::DamonAttrs;

use super::frames::Frames;
use super::{AccessMonitor, AccessReport, MonitorTarget, thread_cpu};
use crate::damon::operations;
use crate::damon::{Admin, DamonTarget, Kdamond, Monitoring, Scheme};
use crate::error::Result;
use crate::process::Reader;
use crate::roots::Roots;

/// Checks that the kernel has it and that this process may use it.
///
/// # Errors
/// The error names the reason and the remedy.
pub fn probe(roots: &Roots) -> Result<()> {
    Admin::probe(roots)?;
    operations::probe(roots, "paddr")
}

/// DAMON on physical memory.
#[derive(Debug)]
pub struct DamonPaddr {
    roots: Roots,
    admin: Admin,
    monitoring: Monitoring,
    kdamonds: Vec<Kdamond>,
    frames: Frames,
    reader: Reader,
    spent: Duration,
}

impl DamonPaddr {
    /// A source for ranges of physical addresses ([`crate::damon::physical::ranges`]), ascending.
    ///
    /// # Errors
    /// The kernel has no DAMON, another program uses all of it, or the record cannot be read.
    pub fn new(
        roots: &Roots,
        record: Option<&Path>,
        attrs: DamonAttrs,
        ranges: Vec<(u64, u64)>,
    ) -> Result<Self> {
        let schemes = vec![Scheme::stat()];
        let admin = Admin::open(roots, record)?;
        admin.has_room()?;
        Ok(Self {
            admin,
            roots: roots.clone(),
            monitoring: Monitoring { target: DamonTarget::Physical(ranges), attrs, schemes },
            kdamonds: Vec::new(),
            frames: Frames::new(roots),
            reader: Reader::default(),
            spent: Duration::ZERO,
        })
    }
}

impl AccessMonitor for DamonPaddr {
    fn name(&self) -> &'static str {
        "damon-paddr"
    }

    /// Starts with the first process and stops with the last: all tenants share physical memory.
    fn set_targets(&mut self, processes: &[MonitorTarget]) -> Result<()> {
        self.frames.set(processes)?;
        if processes.is_empty() {
            return self.stop();
        }
        if self.kdamonds.is_empty() {
            self.kdamonds = self.admin.take(1)?;
            self.kdamonds[0].configure(&self.monitoring)?;
            self.kdamonds[0].on(&self.roots)?;
            self.admin.note(&self.kdamonds, &mut self.reader)?;
        }
        Ok(())
    }

    fn collect(&mut self, report: &mut AccessReport) -> Result<()> {
        let before = thread_cpu();
        let attrs = &self.monitoring.attrs;
        let max = attrs.aggregation.as_nanos() / attrs.sampling.as_nanos().max(1);
        report.max_accesses = u32::try_from(max).unwrap_or(u32::MAX).max(1);
        if let Some(kdamond) = self.kdamonds.first() {
            kdamond.regions(&mut self.reader, &mut report.physical)?;
            self.frames.find_owners(report)?;
        }
        self.spent += thread_cpu().saturating_sub(before);
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        for kdamond in &self.kdamonds {
            self.spent += kdamond.cpu_time(&self.roots, &mut self.reader)?;
        }
        self.admin.restore(std::mem::take(&mut self.kdamonds))
    }

    fn cpu_time(&mut self) -> Result<Duration> {
        let mut total = self.spent;
        for kdamond in &self.kdamonds {
            total += kdamond.cpu_time(&self.roots, &mut self.reader)?;
        }
        Ok(total)
    }
}
