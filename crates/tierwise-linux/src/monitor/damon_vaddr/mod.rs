//! DAMON on processes' virtual addresses: one kdamond per process, and at most [`MAX`] of them.
//!
//! More processes are monitored in turns ([`super::rotation`]): a kdamond gets up to [`GROUP`]
//! processes, and is turned off after [`TURN`] aggregation intervals. A turn starts with coarse
//! regions, which adapt once per interval. The next turn starts with an order of the daemon, once
//! the CPU budget has paid for the last ones ([`crate::pace`]), so that the cost has a bound for
//! any number of processes. What was read of a process counts until it is read again
//! ([`AccessReport::takes_turns`]).
//!
//! A kdamond takes the mmap lock of each of its processes, which a process may hold for ever. A
//! command to that kdamond then waits as long, with DAMON's own lock held. Regions are therefore
//! read from a tracepoint, which needs no command ([`DamonVaddr::with_tracepoint`]). A kdamond that
//! waits gets no command until it continues, and each of its processes gets the next turn alone. A
//! thread of its own gives the commands (`commander.rs`), so that a command that meets a lock taken
//! a moment ago does not delay the reading of regions. Without the tracepoint a kdamond has one
//! process.

mod commander;
mod commands;
mod orders;

use std::path::Path;
use std::time::{Duration, Instant};

use tierwise_core::observe::DamonAttrs;

use super::{AccessMonitor, AccessReport, MonitorTarget, PATIENCE, ProcessRegion, thread_cpu};
use crate::damon::operations;
use crate::damon::trace::TraceBuffers;
use crate::damon::{Admin, HostRegion};
use crate::error::Result;
use crate::pace::{Pace, TURNS};
use crate::process::{Process, Reader};
use crate::roots::Roots;
use commander::Commander;
use commands::Commands;
use orders::{DamonOrder, KdamondChange, Monitored};

/// Maximum number of kdamonds. Each is a kernel thread that wakes every sampling interval. The
/// kernel executes one sysfs command at a time, so that collecting from all takes up to this many
/// aggregation intervals: 1.6 s at the default.
pub const MAX: u32 = 16;

/// Maximum processes of a kdamond. A turn of one process costs the wake-ups of a thread; sixteen
/// share them, and no more are delayed by one that keeps its memory locked.
pub const GROUP: usize = 16;

/// Aggregation intervals per turn: regions are split once per interval, so that 3 become up to 96.
pub const TURN: u32 = 5;

/// Checks that the kernel has it and that this process may use it.
///
/// # Errors
/// The error names the reason and the remedy. Use of DAMON by another program shows only when a
/// kdamond is started.
pub fn probe(roots: &Roots) -> Result<()> {
    Admin::probe(roots)?;
    operations::probe(roots, "vaddr")
}

/// Longest aggregation interval, however high the throttle: a read of regions waits for its end.
const MAX_AGGREGATION: Duration = Duration::from_secs(5);

/// The regions that kdamonds report without a command.
trait Reports: std::fmt::Debug + Send {
    /// Reads the regions that these threads reported since the last call.
    fn read(&mut self, threads: &[i32]) -> Result<()>;

    /// Regions of one of a thread's targets in the last aggregation interval, ascending; `None` if
    /// no interval has ended since the last call.
    fn take(&mut self, thread: i32, target: u64) -> Option<&[HostRegion]>;
}

impl Reports for TraceBuffers {
    fn read(&mut self, threads: &[i32]) -> Result<()> {
        self.read(threads)
    }

    fn take(&mut self, thread: i32, target: u64) -> Option<&[HostRegion]> {
        self.take(thread, target)
    }
}

/// DAMON on processes.
#[derive(Debug)]
pub struct DamonVaddr {
    roots: Roots,
    configured: DamonAttrs,
    /// The configured attributes, with longer intervals while monitoring is throttled.
    attrs: DamonAttrs,
    max_kdamonds: u32,
    /// The commander until its thread starts, with the first order.
    idle: Option<Commander>,
    commands: Option<Commands>,
    ordered: Instant,
    /// The commander is late, and this was reported.
    late: bool,
    monitored: Vec<Monitored>,
    /// Tracepoint reader; without one the commander reads regions through sysfs.
    reports: Option<Box<dyn Reports>>,
    threads: Vec<i32>,
    targets: Vec<MonitorTarget>,
    /// The targets' processes, ascending.
    processes: Vec<Process>,
    /// The commander knows the targets.
    told: bool,
    takes_turns: bool,
    reader: Reader,
    /// CPU time of this thread.
    spent: Duration,
    /// CPU time of stopped kdamonds.
    ended: Duration,
}

impl DamonVaddr {
    /// Opens DAMON. With a record, first turns off the kdamonds that a killed process left on.
    /// Kdamonds are taken once there is a process.
    ///
    /// # Errors
    /// The kernel has no DAMON, another program uses all of it, or the record cannot be read.
    pub fn new(
        roots: &Roots,
        record: Option<&Path>,
        attrs: DamonAttrs,
        max_kdamonds: u32,
    ) -> Result<Self> {
        let admin = Admin::open(roots, record)?;
        admin.has_room()?;
        let max_kdamonds = max_kdamonds.clamp(1, MAX);
        Ok(Self {
            roots: roots.clone(),
            configured: attrs,
            attrs,
            max_kdamonds,
            idle: Some(Commander::new(roots, admin, attrs, max_kdamonds)),
            commands: None,
            ordered: Instant::now(),
            late: false,
            monitored: Vec::new(),
            reports: None,
            threads: Vec::new(),
            targets: Vec::new(),
            processes: Vec::new(),
            told: false,
            takes_turns: false,
            reader: Reader::default(),
            spent: Duration::ZERO,
            ended: Duration::ZERO,
        })
    }

    /// Starts turns at the pace of a CPU budget, in parts of one CPU.
    #[must_use]
    pub fn with_budget(mut self, budget: f64) -> Self {
        if let Some(commander) = &mut self.idle {
            commander.set_pace(Pace::new(budget, TURNS));
        }
        self
    }

    /// Reads regions from DAMON's tracepoint if tracefs is mounted, instead of making the kernel
    /// write them to sysfs. A collection then waits for at most one aggregation interval. It
    /// reports the processes whose interval has ended since the last collection.
    #[must_use]
    pub fn with_tracepoint(self) -> Self {
        match TraceBuffers::open(&self.roots) {
            Ok(trace) => self.with_reports(Box::new(trace)),
            Err(problem) => {
                tracing::warn!(
                    "{problem}; regions are read through sysfs, where a process that keeps its \
                     address space locked can stop access monitoring for every tenant"
                );
                self
            }
        }
    }

    fn with_reports(mut self, reports: Box<dyn Reports>) -> Self {
        if let Some(commander) = &mut self.idle {
            commander.leave_reading();
            self.reports = Some(reports);
        }
        self
    }

    /// Sets the intervals and bounds of every kdamond, from the next collection on.
    pub fn set_attrs(&mut self, attrs: DamonAttrs) {
        self.attrs = attrs;
    }

    /// Gives the commander an order, unless the last one is not finished yet: every order is given
    /// again in the next round. Returns true if it was given.
    fn order(&mut self, order: DamonOrder, report: &mut AccessReport) -> Result<bool> {
        self.finish(report)?;
        if let Some(commander) = self.idle.take() {
            self.commands = Some(Commands::start(commander)?);
        }
        let Some(commands) = self.commands.as_mut().filter(|commands| !commands.is_pending())
        else {
            return Ok(false);
        };
        commands.give(self.attrs, order);
        self.ordered = Instant::now();
        self.finish(report)?;
        Ok(true)
    }

    /// Waits for the current order. With the tracepoint, it waits for at most one aggregation
    /// interval, because no new data comes earlier.
    fn finish(&mut self, report: &mut AccessReport) -> Result<()> {
        let Some(commands) = &mut self.commands else { return Ok(()) };
        let reads_on = self.reports.is_some() && !self.monitored.is_empty();
        let limit = reads_on.then_some(self.attrs.aggregation);
        match commands.take(limit)? {
            Some(answer) => {
                (self.ended, self.takes_turns) = (answer.ended, answer.takes_turns);
                for change in answer.changes {
                    match change {
                        KdamondChange::Started(monitored) => self.monitored.push(monitored),
                        KdamondChange::Left(place) => self.monitored.retain(|m| m.place != place),
                    }
                }
                report.sampled.extend(answer.sampled);
                report.regions.extend(answer.regions);
                if std::mem::take(&mut self.late) {
                    tracing::info!("commands to kdamonds are executed again");
                }
                answer.result
            }
            None => {
                self.report_late();
                Ok(())
            }
        }
    }

    fn report_late(&mut self) {
        let pending = self.commands.as_ref().is_some_and(Commands::is_pending);
        if pending && !self.late && self.ordered.elapsed() > self.patience() {
            self.late = true;
            tracing::warn!(
                "a command to a kdamond waits for a process that keeps its address space locked: \
                 the {} monitored processes stay monitored, and no others are until that ends",
                self.monitored.iter().map(|monitored| monitored.processes.len()).sum::<usize>()
            );
        }
    }

    /// Reads the tracepoint.
    fn read(&mut self, report: &mut AccessReport) -> Result<()> {
        let Some(reports) = &mut self.reports else { return Ok(()) };
        let thread = |monitored: &Monitored| monitored.thread.map(|thread| thread.pid);
        self.threads.clear();
        self.threads.extend(self.monitored.iter().filter_map(thread));
        reports.read(&self.threads)?;
        for monitored in &self.monitored {
            let Some(thread) = thread(monitored) else { continue };
            for (target, &process) in (0..).zip(&monitored.processes) {
                let Some(regions) = reports.take(thread, target) else { continue };
                if self.processes.binary_search(&process).is_ok() {
                    report.sampled.push(process);
                    let regions = regions.iter().map(|&region| ProcessRegion { process, region });
                    report.regions.extend(regions);
                }
            }
        }
        Ok(())
    }
}

impl AccessMonitor for DamonVaddr {
    fn name(&self) -> &'static str {
        "damon-vaddr"
    }

    fn set_targets(&mut self, processes: &[MonitorTarget]) -> Result<()> {
        let before = thread_cpu();
        if processes != self.targets {
            processes.clone_into(&mut self.targets);
            self.processes.clear();
            self.processes.extend(processes.iter().map(|target| target.process));
            self.processes.sort_unstable();
            self.told = false;
        }
        let mut ordered = Ok(true);
        if !self.told {
            // Only `Collect` reads regions, and the regions of a late one are out of date by now.
            let order = DamonOrder::Targets(processes.to_vec());
            ordered = self.order(order, &mut AccessReport::default());
            self.told = matches!(ordered, Ok(true));
        }
        self.spent += thread_cpu().saturating_sub(before);
        ordered.map(drop)
    }

    fn collect(&mut self, report: &mut AccessReport) -> Result<()> {
        let before = thread_cpu();
        let sampling = self.attrs.sampling.as_nanos().max(1);
        let max = self.attrs.aggregation.as_nanos() / sampling;
        report.max_accesses = u32::try_from(max).unwrap_or(u32::MAX).max(1);
        // The order may end turns, whose last regions are read before.
        let read = self.read(report);
        let ordered = self.order(DamonOrder::Collect, report);
        report.takes_turns = self.takes_turns;
        self.spent += thread_cpu().saturating_sub(before);
        ordered.map(drop).and(read)
    }

    fn stop(&mut self) -> Result<()> {
        let patience = self.patience();
        let Some(commands) = &mut self.commands else { return Ok(()) };
        // A late order keeps the kernel from executing this one. When it ends, the commander turns
        // everything off.
        commands.take(Some(commands::TO_END))?;
        if commands.is_pending() {
            return Err(super::waits_still());
        }
        commands.give(self.attrs, DamonOrder::Stop);
        self.monitored.clear();
        self.targets.clear();
        self.told = false;
        match commands.take(Some(patience))? {
            Some(answer) => {
                self.ended = answer.ended;
                answer.result
            }
            None => Err(super::waits_still()),
        }
    }

    fn set_throttle(&mut self, times: f64) -> Result<()> {
        let longer = |interval: Duration| interval.mul_f64(times.max(1.0)).min(MAX_AGGREGATION);
        let aggregation = longer(self.configured.aggregation);
        // The checks per aggregation interval stay as configured, so that nr_accesses keeps its
        // meaning.
        let checks =
            self.configured.aggregation.as_secs_f64() / self.configured.sampling.as_secs_f64();
        let sampling = aggregation.div_f64(checks.max(1.0));
        if aggregation != self.attrs.aggregation {
            self.set_attrs(DamonAttrs { sampling, aggregation, ..self.configured });
        }
        Ok(())
    }

    /// One aggregation interval per kdamond, and as long again for DAMON's other users.
    fn patience(&self) -> Duration {
        PATIENCE + self.attrs.aggregation * 2 * self.max_kdamonds
    }

    fn cpu_time(&mut self) -> Result<Duration> {
        let kdamonds = self.monitored.iter().map(|m| m.cpu_time(&self.roots, &mut self.reader));
        Ok(self.spent + self.ended + kdamonds.sum::<Duration>())
    }
}

#[cfg(test)]
mod tests;
