//! DAMON on processes' virtual addresses: one kdamond per process. The number of kdamonds is
//! bounded; more processes are monitored in rotation ([`super::rotation`]).
//!
//! A kdamond that is assigned to another process starts with coarse regions. A turn therefore lasts
//! for [`COLLECTIONS_PER_ROUND`] collections, so that regions can adapt (they are split once per
//! aggregation interval).
//!
//! A kdamond takes the mmap lock of its process, which the process may hold for ever. A command to
//! that kdamond then waits as long, with DAMON's own lock held. Regions are therefore read from a
//! tracepoint, which needs no command ([`DamonVaddr::with_tracepoint`]). A kdamond that waits gets
//! no command until it continues. A thread of its own gives the commands (`commander.rs`), so that
//! a command that meets a lock taken a moment ago does not delay the reading of regions.

mod commander;

use std::path::Path;
use std::time::{Duration, Instant};

use tierwise_core::observe::DamonAttrs;

use super::{AccessMonitor, AccessReport, MonitorTarget, PATIENCE, ProcessRegion, thread_cpu};
use crate::damon::operations;
use crate::damon::trace::TraceBuffers;
use crate::damon::{Admin, HostRegion};
use crate::error::Result;
use crate::process::Reader;
use crate::roots::Roots;
use commander::{Commander, Commands, DamonOrder, Monitored, TargetChange};

/// Maximum number of kdamonds. Each is a kernel thread that wakes every sampling interval. The
/// kernel executes one sysfs command at a time, so that collecting from all takes up to this many
/// aggregation intervals: 1.6 s at the default.
pub const MAX: u32 = 16;

/// Collections per turn.
pub const COLLECTIONS_PER_ROUND: u32 = 5;

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

    /// Regions of the last aggregation interval of a kdamond's thread, ascending; `None` if no
    /// interval has ended since the last call.
    fn take(&mut self, thread: i32) -> Option<&[HostRegion]>;
}

impl Reports for TraceBuffers {
    fn read(&mut self, threads: &[i32]) -> Result<()> {
        self.read(threads)
    }

    fn take(&mut self, thread: i32) -> Option<&[HostRegion]> {
        self.take(thread)
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
            reader: Reader::default(),
            spent: Duration::ZERO,
            ended: Duration::ZERO,
        })
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
    /// again in the next round.
    fn order(&mut self, order: DamonOrder, report: &mut AccessReport) -> Result<()> {
        self.finish(report)?;
        if let Some(commander) = self.idle.take() {
            self.commands = Some(Commands::start(commander)?);
        }
        let Some(commands) = self.commands.as_mut().filter(|commands| !commands.is_pending())
        else {
            return Ok(());
        };
        commands.give(self.attrs, order);
        self.ordered = Instant::now();
        self.finish(report)
    }

    /// Waits for the current order. With the tracepoint, it waits for at most one aggregation
    /// interval, because no new data comes earlier.
    fn finish(&mut self, report: &mut AccessReport) -> Result<()> {
        let Some(commands) = &mut self.commands else { return Ok(()) };
        let reads_on = self.reports.is_some() && !self.monitored.is_empty();
        let limit = reads_on.then_some(self.attrs.aggregation);
        match commands.take(limit)? {
            Some(answer) => {
                self.ended = answer.ended;
                for change in answer.changes {
                    match change {
                        TargetChange::Started(monitored) => self.monitored.push(monitored),
                        TargetChange::Left(process) => {
                            self.monitored.retain(|m| m.process != process)
                        }
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
                self.monitored.len()
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
            let process = monitored.process;
            let Some(regions) = thread(monitored).and_then(|thread| reports.take(thread)) else {
                continue;
            };
            if self.targets.iter().any(|target| target.process == process) {
                report.sampled.push(process);
                let regions = regions.iter().map(|&region| ProcessRegion { process, region });
                report.regions.extend(regions);
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
        processes.clone_into(&mut self.targets);
        // Only `Collect` reads regions, and the regions of a late one are out of date by now.
        let ordered =
            self.order(DamonOrder::Targets(processes.to_vec()), &mut AccessReport::default());
        self.spent += thread_cpu().saturating_sub(before);
        ordered
    }

    fn collect(&mut self, report: &mut AccessReport) -> Result<()> {
        let before = thread_cpu();
        let sampling = self.attrs.sampling.as_nanos().max(1);
        let max = self.attrs.aggregation.as_nanos() / sampling;
        report.max_accesses = u32::try_from(max).unwrap_or(u32::MAX).max(1);
        let ordered = self.order(DamonOrder::Collect, report);
        let read = self.read(report);
        self.spent += thread_cpu().saturating_sub(before);
        ordered.and(read)
    }

    fn stop(&mut self) -> Result<()> {
        let patience = self.patience();
        let Some(commands) = &mut self.commands else { return Ok(()) };
        // A late order keeps the kernel from executing this one. When it ends, the commander turns
        // everything off.
        commands.take(Some(commander::TO_END))?;
        if commands.is_pending() {
            return Err(super::waits_still());
        }
        commands.give(self.attrs, DamonOrder::Stop);
        self.monitored.clear();
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
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::super::walk::fake::process;
    use super::*;
    use crate::damon::fake::{FakeDamon, put};

    fn targets(fake: &FakeDamon) -> Vec<(String, String)> {
        (0..2)
            .map(|i| (fake.text(i, "state"), fake.text(i, "contexts/0/targets/0/pid_target")))
            .collect()
    }

    fn texts(list: [(&str, &str); 2]) -> Vec<(String, String)> {
        list.map(|(a, b)| (a.to_owned(), b.to_owned())).to_vec()
    }

    fn monitor(fake: &FakeDamon) -> DamonVaddr {
        DamonVaddr::new(&fake.roots, Some(&fake.record), DamonAttrs::default(), 2).unwrap()
    }

    #[test]
    fn processes_come_and_go() {
        let fake = FakeDamon::new(0);
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
        let fake = FakeDamon::new(0);
        let mut monitor = monitor(&fake);
        let mut reused = process(&fake.roots, 8, &[1]);
        reused.process.start_time += 1;
        monitor.set_targets(&[reused]).unwrap();
        assert_eq!(targets(&fake)[0].0, "off");

        let watched = process(&fake.roots, 9, &[1]);
        monitor.set_targets(&[watched]).unwrap();
        // The kdamond has stopped by itself.
        put(&fake.file(0, "state"), "off\n");
        let mut report = AccessReport::default();
        monitor.collect(&mut report).unwrap();
        assert!(report.sampled.is_empty() && report.regions.is_empty());
        assert_eq!(report.max_accesses, 20);
    }

    #[test]
    fn waiting_kdamond_gets_no_command() {
        let fake = FakeDamon::new(0);
        let mut monitor = monitor(&fake);
        let (hostile, healthy) = (process(&fake.roots, 8, &[1]), process(&fake.roots, 9, &[1]));
        let thread = |state: char| {
            let stat =
                format!("70 (kdamond.0) {state} 2 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9 0 0 0");
            put(&fake.roots.proc.join("70/stat"), &stat);
        };
        thread('S');
        put(&fake.file(0, "pid"), "70\n");
        monitor.set_targets(&[hostile]).unwrap();
        monitor.set_targets(&[hostile, healthy]).unwrap();
        // The thread waits for the mmap lock of process 8.
        thread('D');
        monitor.collect(&mut AccessReport::default()).unwrap();
        assert_eq!(targets(&fake)[0].0, "on");
        assert_ne!(targets(&fake)[1].0, "on");
        put(&fake.file(1, "state"), "on\n");
        let slower = DamonAttrs { aggregation: Duration::from_secs(1), ..DamonAttrs::default() };
        monitor.set_attrs(slower);
        monitor.set_targets(&[healthy]).unwrap();
        assert_eq!(targets(&fake)[0].0, "on");
        // The place of kdamond 0 is not free, and it takes no turn from another process.
        let third = process(&fake.roots, 10, &[1]);
        monitor.set_targets(&[third]).unwrap();
        assert_eq!(targets(&fake)[1], ("on".into(), "10".into()));
        let problem = monitor.stop().unwrap_err().to_string();
        assert!(problem.contains("kdamond 0 (for process 8) waits"), "{problem}");
        // The other one is off, and the record still names the first.
        assert_eq!((targets(&fake)[0].0.as_str(), targets(&fake)[1].0.as_str()), ("on", "off"));
        assert!(fake.record.exists());
    }

    #[test]
    fn slower_attributes_reach_running_kdamond() {
        let fake = FakeDamon::new(0);
        let mut monitor = monitor(&fake);
        monitor.set_targets(&[process(&fake.roots, 8, &[1])]).unwrap();
        let slower = DamonAttrs { aggregation: Duration::from_secs(1), ..DamonAttrs::default() };
        monitor.set_attrs(slower);
        monitor.collect(&mut AccessReport::default()).unwrap();
        assert_eq!(
            fake.text(0, "contexts/0/monitoring_attrs/intervals/aggr_us"),
            "1000000".to_owned()
        );
    }

    /// Reports one region per thread at every read.
    #[derive(Debug)]
    struct OneRegion(HostRegion);

    impl Reports for OneRegion {
        fn read(&mut self, _: &[i32]) -> Result<()> {
            Ok(())
        }

        fn take(&mut self, _: i32) -> Option<&[HostRegion]> {
            Some(std::slice::from_ref(&self.0))
        }
    }

    /// A command meets a lock: a pipe that no process reads takes the place of a file that the
    /// command writes.
    #[test]
    fn late_command_leaves_others_monitored() {
        let fake = FakeDamon::new(0);
        let region = HostRegion { start: 0, end: 4096, nr_accesses: 1, age: 0 };
        let mut monitor = monitor(&fake).with_reports(Box::new(OneRegion(region)));
        let (healthy, hostile) = (process(&fake.roots, 8, &[1]), process(&fake.roots, 9, &[1]));
        for (place, thread) in [(0, 70), (1, 71)] {
            fake.run(place, thread, 5);
            put(&fake.file(place, "state"), "off\n");
        }
        monitor.set_targets(&[healthy]).unwrap();
        let pipe = fake.file(1, "contexts/0/monitoring_attrs/intervals/sample_us");
        std::fs::remove_file(&pipe).unwrap();
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();

        monitor.set_targets(&[healthy, hostile]).unwrap();
        for _ in 0..3 {
            let mut report = AccessReport::default();
            monitor.collect(&mut report).unwrap();
            assert_eq!(report.sampled, [healthy.process]);
            assert_eq!(report.regions.len(), 1);
        }
        // A late command is reported once it takes longer than any command should.
        assert!(!monitor.late);
        monitor.ordered -= monitor.patience();
        monitor.collect(&mut AccessReport::default()).unwrap();
        assert!(monitor.late);

        // The process releases its lock.
        let free = std::thread::spawn(move || std::fs::read(&pipe).unwrap());
        while monitor.late {
            monitor.collect(&mut AccessReport::default()).unwrap();
        }
        assert_eq!(free.join().unwrap(), b"5000");
        assert_eq!(targets(&fake), texts([("on", "8"), ("on", "9")]));
        monitor.stop().unwrap();
        assert_eq!(targets(&fake), texts([("off", "8"), ("off", "9")]));
    }
}
