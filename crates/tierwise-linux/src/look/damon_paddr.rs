//! DAMON on physical memory: one kdamond for all processes, whatever their number. It says how hot ranges of frames are, not
//! whose they are; [`super::frames`] finds that out through `/proc/PID/pagemap`, which shows frames to `CAP_SYS_ADMIN` only.
//!
//! The kernel's memory cgroup filters are of no use here: it asks them when it acts on a region's pages, and a filter does not
//! change which regions there are. Where it moves pages itself they are ([`crate::migrate::damos`]).

use std::path::Path;
use std::time::Duration;

use tierwise_core::observe::RegionWatch;

use super::frames::Frames;
use super::{Look, Seen, Watched, thread_cpu};
use crate::damon::operations;
use crate::damon::{Admin, Kdamond, Monitoring, Scheme, Target};
use crate::error::Result;
use crate::process::Reader;
use crate::roots::Roots;

/// Whether the kernel has it and lets us in.
///
/// # Errors
/// Why not, and how to get it.
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
    /// Over ranges of physical addresses ([`crate::damon::physical::ranges`]), ascending.
    ///
    /// # Errors
    /// There is no DAMON, all of it is somebody else's, or the record cannot be read.
    pub fn new(
        roots: &Roots,
        record: Option<&Path>,
        watch: RegionWatch,
        ranges: Vec<(u64, u64)>,
    ) -> Result<Self> {
        let schemes = vec![Scheme::stat()];
        let admin = Admin::open(roots, record)?;
        admin.has_room()?;
        Ok(Self {
            admin,
            roots: roots.clone(),
            monitoring: Monitoring { target: Target::Physical(ranges), watch, schemes },
            kdamonds: Vec::new(),
            frames: Frames::new(roots),
            reader: Reader::default(),
            spent: Duration::ZERO,
        })
    }
}

impl Look for DamonPaddr {
    fn name(&self) -> &'static str {
        "damon_paddr"
    }

    /// Starts with the first process, and stops with the last: physical memory is everybody's.
    fn watch(&mut self, processes: &[Watched]) -> Result<()> {
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

    fn collect(&mut self, seen: &mut Seen) -> Result<()> {
        let before = thread_cpu();
        let watch = &self.monitoring.watch;
        let most = watch.aggregation.as_nanos() / watch.sampling.as_nanos().max(1);
        seen.most_accesses = u32::try_from(most).unwrap_or(u32::MAX).max(1);
        if let Some(kdamond) = self.kdamonds.first() {
            kdamond.regions(&mut self.reader, &mut seen.physical)?;
            self.frames.find_owners(seen)?;
        }
        self.spent += thread_cpu().saturating_sub(before);
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        for kdamond in &self.kdamonds {
            self.spent += kdamond.cpu_time(&self.roots, &mut self.reader)?;
        }
        self.admin.give_back(std::mem::take(&mut self.kdamonds))
    }

    fn cpu_time(&mut self) -> Result<Duration> {
        let mut total = self.spent;
        for kdamond in &self.kdamonds {
            total += kdamond.cpu_time(&self.roots, &mut self.reader)?;
        }
        Ok(total)
    }
}
