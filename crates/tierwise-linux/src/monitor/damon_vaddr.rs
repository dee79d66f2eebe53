//! DAMON on processes' virtual addresses: one kdamond a process, a bounded number of kdamonds, in
//! turns when there are more processes ([`super::rotation`]).
//!
//! A kdamond that is given another process starts with coarse regions, so a turn lasts for [`TURN`]
//! collections: long enough for regions to adapt (they are split once an aggregation interval).
//!
//! A kdamond takes the mmap lock of its process, which the process may hold for ever, and a command
//! to it then waits as long, with DAMON's own lock held. Regions are therefore read from a
//! tracepoint, which takes no command ([`DamonVaddr::with_tracepoint`]), and a kdamond that waits
//! is given none until it goes on.

use std::path::Path;
use std::time::Duration;

use tierwise_core::observe::DamonAttrs;

use super::rotation::RoundRobin;
use super::{AccessMonitor, AccessReport, MonitorTarget, PATIENCE, ProcessRegion, thread_cpu};
use crate::damon::operations;
use crate::damon::trace::{Format, Trace};
use crate::damon::{Admin, HostRegion, Kdamond, Monitoring, Scheme, Target};
use crate::error::{LinuxError, Result};
use crate::process::{Process, Reader};
use crate::roots::Roots;

/// Kdamonds at most. Each is a kernel thread that wakes every sampling interval; and because the
/// kernel carries out one sysfs command at a time, collecting from all takes up to this many
/// aggregation intervals: 1.6 s at the default.
pub const MAX: u32 = 16;

/// Collections that a turn lasts for.
pub const TURN: u32 = 5;

/// Whether the kernel has it and lets us in.
///
/// # Errors
/// Why not, and how to get it. Whether anybody else holds DAMON is known only once a kdamond is
/// turned on.
pub fn probe(roots: &Roots) -> Result<()> {
    Admin::probe(roots)?;
    operations::probe(roots, "vaddr")
}

/// However little CPU time there is, regions are summed up once in so long: a read of them
/// waits for it.
const MAX_AGGREGATION: Duration = Duration::from_secs(5);

/// DAMON on processes.
#[derive(Debug)]
pub struct DamonVaddr {
    roots: Roots,
    admin: Admin,
    /// As told, and as stretched.
    configured: DamonAttrs,
    attrs: DamonAttrs,
    most: u32,
    kdamonds: Vec<Kdamond>,
    /// The process of each kdamond.
    assigned: Vec<Option<Process>>,
    /// What each kdamond was last given.
    given: Vec<DamonAttrs>,
    /// The tracepoint, if it is used.
    format: Option<Format>,
    /// By place: the ring of each kdamond, if it could be opened.
    traces: Vec<Option<Trace>>,
    rotation: RoundRobin,
    collections: u32,
    chosen: Vec<Process>,
    reader: Reader,
    regions: Vec<HostRegion>,
    /// Of kdamonds that were turned off, and of this thread.
    spent: Duration,
}

impl DamonVaddr {
    /// Opens DAMON; with a record, turns off first what a killed process left. Kdamonds are taken
    /// when there is a process.
    ///
    /// # Errors
    /// There is no DAMON, all of it is another program's, or the record cannot be read.
    pub fn new(roots: &Roots, record: Option<&Path>, attrs: DamonAttrs, most: u32) -> Result<Self> {
        let admin = Admin::open(roots, record)?;
        admin.has_room()?;
        Ok(Self {
            admin,
            roots: roots.clone(),
            configured: attrs,
            attrs,
            most: most.clamp(1, MAX),
            kdamonds: Vec::new(),
            assigned: Vec::new(),
            given: Vec::new(),
            format: None,
            traces: Vec::new(),
            rotation: RoundRobin::default(),
            collections: 0,
            chosen: Vec::new(),
            reader: Reader::default(),
            regions: Vec::new(),
            spent: Duration::ZERO,
        })
    }

    /// Reads regions from DAMON's tracepoint where tracefs and `CAP_PERFMON` are there, instead of
    /// having the kernel write them to sysfs. A collection then waits for nothing, and holds the
    /// processes of which an aggregation interval has ended since the last one.
    #[must_use]
    pub fn with_tracepoint(mut self) -> Self {
        self.format = Format::read(&self.roots);
        self
    }

    /// Gives every kdamond other intervals and bounds, while they run: monitoring less often costs
    /// less.
    ///
    /// # Errors
    /// The kernel refuses a value.
    pub fn set_attrs(&mut self, attrs: DamonAttrs) -> Result<()> {
        self.attrs = attrs;
        for place in 0..self.assigned.len() {
            // A place without a process has no context to write to.
            if self.assigned[place].is_some() {
                self.give_attrs(place)?;
            }
        }
        Ok(())
    }

    /// Gives a kdamond the intervals and bounds of all, unless it waits.
    fn give_attrs(&mut self, place: usize) -> Result<()> {
        if self.given[place] != self.attrs && !self.is_waiting(place)? {
            self.kdamonds[place].set_attrs(&self.attrs)?;
            self.given[place] = self.attrs;
        }
        Ok(())
    }

    fn is_waiting(&mut self, place: usize) -> Result<bool> {
        self.kdamonds[place].is_waiting(&self.roots, &mut self.reader)
    }

    /// Starts a turn.
    fn assign(&mut self) -> Result<()> {
        let wanted = self.rotation.len().min(self.most as usize);
        if self.kdamonds.is_empty() && wanted > 0 {
            // All that may be used at once: once they run no more can be made.
            self.kdamonds = self.admin.take(self.most)?;
            self.assigned = vec![None; self.kdamonds.len()];
            self.given = vec![self.attrs; self.kdamonds.len()];
            self.traces = self.kdamonds.iter().map(|_| None).collect();
        }
        self.rotation.next(self.kdamonds.len(), &mut self.chosen);
        for place in 0..self.assigned.len() {
            match self.assigned[place] {
                Some(p) if self.chosen.contains(&p) => self.chosen.retain(|&c| c != p),
                Some(_) => self.leave(place)?,
                None => (),
            }
        }
        let mut changed = false;
        while let Some(process) = self.chosen.pop() {
            let Some(place) = self.assigned.iter().position(Option::is_none) else { break };
            changed |= self.start(place, process)?;
        }
        if changed { self.admin.note(&self.kdamonds, &mut self.reader) } else { Ok(()) }
    }

    /// Turns a kdamond on for a process; false if the process is gone.
    fn start(&mut self, place: usize, process: Process) -> Result<bool> {
        let task = match process.task(&self.roots, &mut self.reader) {
            Err(e) if e.is_of_machine() => return Err(e),
            Err(_) => return Ok(false),
            Ok(task) => task,
        };
        let target = Target::Process(task);
        let monitoring = Monitoring { target, attrs: self.attrs, schemes: vec![Scheme::stat()] };
        let kdamond = &mut self.kdamonds[place];
        kdamond.configure(&monitoring)?;
        let answer = kdamond.on(&self.roots);
        // DAMON looks a process up by its number alone, so whether it was still this one is asked
        // afterwards.
        let alive = process.is_alive_with(&self.roots, &mut self.reader);
        if !alive {
            kdamond.off()?;
            return Ok(false);
        }
        answer?;
        self.assigned[place] = Some(process);
        self.given[place] = self.attrs;
        self.traces[place] = self.trace(place)?;
        Ok(true)
    }

    /// Opens the ring of a kdamond that was turned on.
    fn trace(&mut self, place: usize) -> Result<Option<Trace>> {
        let Some(format) = self.format else { return Ok(None) };
        let thread = self.kdamonds[place].thread(&self.roots, &mut self.reader)?;
        let Some(thread) = thread else { return Ok(None) };
        let opened = Trace::open(format, thread.pid);
        if let Err(problem) = &opened {
            tracing::debug!(%problem, "kdamond {} is read through sysfs", thread.pid);
        }
        Ok(opened.ok())
    }

    /// Reads the regions of a kdamond; false if there are no new ones.
    fn read(&mut self, place: usize) -> Result<bool> {
        if let Some(trace) = &mut self.traces[place] {
            let Some(regions) = trace.take() else { return Ok(false) };
            self.regions.clear();
            self.regions.extend_from_slice(regions);
            return Ok(true);
        }
        if self.is_waiting(place)? {
            return Ok(false);
        }
        let runs = self.kdamonds[place].regions(&mut self.reader, &mut self.regions)?;
        if !runs {
            // Its process has ended.
            self.leave(place)?;
        }
        Ok(runs)
    }

    /// Turns a kdamond off, unless it waits: then it keeps its place.
    fn leave(&mut self, place: usize) -> Result<()> {
        if self.is_waiting(place)? {
            return Ok(());
        }
        self.spent += self.kdamonds[place].cpu_time(&self.roots, &mut self.reader)?;
        self.assigned[place] = None;
        self.traces[place] = None;
        self.kdamonds[place].off()
    }
}

impl AccessMonitor for DamonVaddr {
    fn name(&self) -> &'static str {
        "damon-vaddr"
    }

    fn set_targets(&mut self, processes: &[MonitorTarget]) -> Result<()> {
        self.rotation.set(processes);
        let still = |p: &Process| processes.iter().any(|w| w.process == *p);
        for place in 0..self.assigned.len() {
            if self.assigned[place].is_some_and(|p| !still(&p)) {
                self.leave(place)?;
            }
        }
        // A turn is cut short only for somebody who would otherwise wait for nothing.
        // A kdamond that waits for a process which is no target any more counts for nothing.
        let busy = self.assigned.iter().flatten().filter(|process| still(process)).count();
        let places =
            if self.kdamonds.is_empty() { self.most as usize } else { self.kdamonds.len() };
        if busy < places.min(self.rotation.len()) { self.assign() } else { Ok(()) }
    }

    fn collect(&mut self, report: &mut AccessReport) -> Result<()> {
        let before = thread_cpu();
        let sampling = self.attrs.sampling.as_nanos().max(1);
        let most = self.attrs.aggregation.as_nanos() / sampling;
        report.max_accesses = u32::try_from(most).unwrap_or(u32::MAX).max(1);
        for place in 0..self.assigned.len() {
            let Some(process) = self.assigned[place] else { continue };
            self.give_attrs(place)?;
            if self.read(place)? {
                report.sampled.push(process);
                let regions = self.regions.iter().map(|&region| ProcessRegion { process, region });
                report.regions.extend(regions);
            }
        }
        self.collections += 1;
        if self.collections.is_multiple_of(TURN) && self.rotation.len() > self.kdamonds.len() {
            self.assign()?;
        }
        self.spent += thread_cpu().saturating_sub(before);
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        let (mut left, mut waiting) = (Vec::new(), Vec::new());
        let kdamonds = std::mem::take(&mut self.kdamonds);
        self.traces.clear();
        let assigned = std::mem::take(&mut self.assigned);
        for (kdamond, process) in kdamonds.into_iter().zip(assigned) {
            match process {
                Some(process) if kdamond.is_waiting(&self.roots, &mut self.reader)? => {
                    waiting.push(format!("{} (for process {})", kdamond.index(), process.pid));
                    kdamond.abandon();
                }
                Some(_) => {
                    self.spent += kdamond.cpu_time(&self.roots, &mut self.reader)?;
                    left.push(kdamond);
                }
                None => left.push(kdamond),
            }
        }
        self.admin.restore(left)?;
        if waiting.is_empty() {
            return Ok(());
        }
        Err(LinuxError::Missing {
            what: format!("kdamond {} waits for a lock and stays on", waiting.join(", ")),
            remedy: "end that process and run `tierwise restore`".into(),
        })
    }

    fn set_throttle(&mut self, times: f64) -> Result<()> {
        let longer = |interval: Duration| interval.mul_f64(times.max(1.0)).min(MAX_AGGREGATION);
        let aggregation = longer(self.configured.aggregation);
        // As many checks an aggregation as configured: nr_accesses goes on to mean the same.
        let checks =
            self.configured.aggregation.as_secs_f64() / self.configured.sampling.as_secs_f64();
        let sampling = aggregation.div_f64(checks.max(1.0));
        if aggregation == self.attrs.aggregation {
            return Ok(());
        }
        self.set_attrs(DamonAttrs { sampling, aggregation, ..self.configured })
    }

    /// One aggregation interval for each kdamond, and as long again for DAMON's other users.
    fn patience(&self) -> Duration {
        PATIENCE + self.attrs.aggregation * 2 * self.most
    }

    fn cpu_time(&mut self) -> Result<Duration> {
        let mut total = self.spent;
        for (kdamond, assigned) in self.kdamonds.iter().zip(&self.assigned) {
            if assigned.is_some() {
                total += kdamond.cpu_time(&self.roots, &mut self.reader)?;
            }
        }
        Ok(total)
    }
}

#[cfg(test)]
mod tests {
    use super::super::walk::fake::process;
    use super::*;
    use crate::damon::fake::{Fake, put};

    fn targets(fake: &Fake) -> Vec<(String, String)> {
        (0..2)
            .map(|i| (fake.text(i, "state"), fake.text(i, "contexts/0/targets/0/pid_target")))
            .collect()
    }

    fn texts(list: [(&str, &str); 2]) -> Vec<(String, String)> {
        list.map(|(a, b)| (a.to_owned(), b.to_owned())).to_vec()
    }

    fn monitor(fake: &Fake) -> DamonVaddr {
        DamonVaddr::new(&fake.roots, Some(&fake.record), DamonAttrs::default(), 2).unwrap()
    }

    #[test]
    fn processes_come_and_go() {
        let fake = Fake::new(0);
        let mut monitor = monitor(&fake);
        let (small, large) = (process(&fake.roots, 8, &[1]), process(&fake.roots, 9, &[1; 5]));
        monitor.set_targets(&[small]).unwrap();
        assert_eq!(targets(&fake), texts([("on", "8"), ("off", "")]));
        monitor.set_targets(&[small, large]).unwrap();
        assert_eq!(targets(&fake), texts([("on", "8"), ("on", "9")]));
        let third = process(&fake.roots, 10, &[1; 3]);
        monitor.set_targets(&[large, third]).unwrap();
        assert_eq!(targets(&fake), texts([("on", "10"), ("on", "9")]));
        monitor.stop().unwrap();
        assert_eq!(targets(&fake), texts([("off", "10"), ("off", "9")]));
        assert!(!fake.record.exists());
        monitor.set_targets(&[third]).unwrap();
        assert_eq!(targets(&fake)[0], ("on".into(), "10".into()));
    }

    #[test]
    fn exited_process_frees_its_slot() {
        let fake = Fake::new(0);
        let mut monitor = monitor(&fake);
        let mut reused = process(&fake.roots, 8, &[1]);
        reused.process.start_time += 1;
        monitor.set_targets(&[reused]).unwrap();
        assert_eq!(targets(&fake)[0].0, "off");

        let watched = process(&fake.roots, 9, &[1]);
        monitor.set_targets(&[watched]).unwrap();
        // Its kdamond has stopped by itself.
        put(&fake.file(0, "state"), "off\n");
        let mut report = AccessReport::default();
        monitor.collect(&mut report).unwrap();
        assert!(report.sampled.is_empty() && report.regions.is_empty());
        assert_eq!(report.max_accesses, 20);
    }

    #[test]
    fn waiting_kdamond_gets_no_command() {
        let fake = Fake::new(0);
        let mut monitor = monitor(&fake);
        let (hostile, healthy) = (process(&fake.roots, 8, &[1]), process(&fake.roots, 9, &[1]));
        monitor.set_targets(&[hostile]).unwrap();
        monitor.set_targets(&[hostile, healthy]).unwrap();
        // Its thread waits for the mmap lock of process 8.
        put(&fake.file(0, "pid"), "70\n");
        let thread = fake.roots.proc.join("70");
        std::fs::create_dir_all(&thread).unwrap();
        put(&thread.join("stat"), "70 (kdamond.0) D 2 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9 0 0 0");
        monitor.collect(&mut AccessReport::default()).unwrap();
        assert_eq!(targets(&fake)[0].0, "on");
        assert_ne!(targets(&fake)[1].0, "on");
        put(&fake.file(1, "state"), "on\n");
        let slower = DamonAttrs { aggregation: Duration::from_secs(1), ..DamonAttrs::default() };
        monitor.set_attrs(slower).unwrap();
        monitor.set_targets(&[healthy]).unwrap();
        assert_eq!(targets(&fake)[0].0, "on");
        // Its place is not free, and it takes no other process's turn.
        let third = process(&fake.roots, 10, &[1]);
        monitor.set_targets(&[third]).unwrap();
        assert_eq!(targets(&fake)[1], ("on".into(), "10".into()));
        let problem = monitor.stop().unwrap_err().to_string();
        assert!(problem.contains("kdamond 0 (for process 8) waits"), "{problem}");
        // The other one is off, and the record says whose the first is.
        assert_eq!((targets(&fake)[0].0.as_str(), targets(&fake)[1].0.as_str()), ("on", "off"));
        assert!(fake.record.exists());
    }

    #[test]
    fn slower_attributes_reach_running_kdamond() {
        let fake = Fake::new(0);
        let mut monitor = monitor(&fake);
        monitor.set_targets(&[process(&fake.roots, 8, &[1])]).unwrap();
        let slower = DamonAttrs { aggregation: Duration::from_secs(1), ..DamonAttrs::default() };
        monitor.set_attrs(slower).unwrap();
        let aggregation = fake.text(0, "contexts/0/monitoring_attrs/intervals/aggr_us");
        assert_eq!((aggregation, fake.text(0, "state")), ("1000000".into(), "commit".into()));
    }
}
