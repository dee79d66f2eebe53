//! The thread that commands kdamonds: turns them on for processes and off again, sets their
//! intervals, and reads regions through sysfs if there is no tracepoint.
//!
//! A command can wait for as long as the process of its kdamond holds its mmap lock, and DAMON
//! executes one command at a time. The thread that reads the tracepoint therefore does not wait for
//! this one.

use std::collections::VecDeque;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use tierwise_core::observe::DamonAttrs;

use crate::damon::{Admin, DamonTarget, HostRegion, Kdamond, Monitoring, Scheme};
use crate::error::{LinuxError, Result};
use crate::monitor::rotation::RoundRobin;
use crate::monitor::{MonitorTarget, ProcessRegion};
use crate::process::{Process, ProcessStat, Reader};
use crate::roots::Roots;
use crate::worker;

use super::COLLECTIONS_PER_ROUND;

/// A process whose kdamond is on.
#[derive(Debug)]
pub(super) struct Monitored {
    pub process: Process,
    /// The kdamond's thread.
    pub thread: Option<Process>,
}

impl Monitored {
    /// CPU time of its kdamond so far; zero once the kdamond has ended.
    pub(super) fn cpu_time(&self, roots: &Roots, reader: &mut Reader) -> Duration {
        let stat = self.thread.and_then(|thread| read_stat(thread, roots, reader));
        stat.map_or(Duration::ZERO, |stat| stat.cpu_time())
    }
}

/// Reads the state of a kdamond's thread; `None` if another thread has its number.
fn read_stat(thread: Process, roots: &Roots, reader: &mut Reader) -> Option<ProcessStat> {
    let stat = ProcessStat::read(roots, thread.pid, reader).ok()?;
    (stat.start_time == thread.start_time).then_some(stat)
}

/// A kdamond that was started or stopped.
#[derive(Debug)]
pub(super) enum TargetChange {
    Started(Monitored),
    Left(Process),
}

/// An order to the commander.
#[derive(Debug)]
pub(super) enum DamonOrder {
    /// Monitors these processes and no others.
    Targets(Vec<MonitorTarget>),
    /// Sets the current intervals of every kdamond, reads the kdamonds if there is no tracepoint,
    /// and ends a turn that has lasted for [`COLLECTIONS_PER_ROUND`](super::COLLECTIONS_PER_ROUND)
    /// collections.
    Collect,
    /// Turns every kdamond off.
    Stop,
}

/// Result of an order.
#[derive(Debug)]
pub(super) struct DamonAnswer {
    pub changes: VecDeque<TargetChange>,
    /// Processes whose regions were read through sysfs, and the regions.
    pub sampled: Vec<Process>,
    pub regions: Vec<ProcessRegion>,
    /// CPU time of all stopped kdamonds.
    pub ended: Duration,
    pub result: Result<()>,
}

/// Channel to the commander. Dropping it ends the thread, which then turns off every kdamond.
#[derive(Debug)]
pub(super) struct Commands {
    orders: Option<Sender<(DamonAttrs, DamonOrder)>>,
    answers: Receiver<DamonAnswer>,
    thread: Option<JoinHandle<()>>,
    /// An order was given and not answered yet.
    is_pending: bool,
}

/// Time to wait for a commander that ends: two of the longest aggregation intervals. After that it
/// is left to its wait.
pub(super) const TO_END: Duration = Duration::from_secs(10);

impl Commands {
    /// Starts the thread.
    pub(super) fn start(mut commander: Commander) -> Result<Self> {
        let (orders, ordered) = bounded::<(DamonAttrs, DamonOrder)>(1);
        let (answer, answers) = bounded(1);
        let body = move || {
            for (attrs, order) in ordered {
                if answer.send(commander.run(attrs, order)).is_err() {
                    break;
                }
            }
            if let Err(problem) = commander.stop() {
                tracing::warn!("{problem}");
            }
        };
        let thread = Some(worker::spawn("kdamonds", body)?);
        Ok(Self { orders: Some(orders), answers, thread, is_pending: false })
    }

    /// True if an order is not answered yet.
    pub(super) fn is_pending(&self) -> bool {
        self.is_pending
    }

    /// Gives an order, unless the last one is not answered yet.
    pub(super) fn give(&mut self, attrs: DamonAttrs, order: DamonOrder) {
        if let Some(orders) = self.orders.as_ref().filter(|_| !self.is_pending) {
            // If the thread has ended, take() finds out.
            let _ = orders.send((attrs, order));
            self.is_pending = true;
        }
    }

    /// Takes the answer to the last order, if it comes within the limit. Without a limit it waits
    /// for the answer.
    pub(super) fn take(&mut self, limit: Option<Duration>) -> Result<Option<DamonAnswer>> {
        if !self.is_pending {
            return Ok(None);
        }
        let answer = match limit {
            Some(limit) => self.answers.recv_timeout(limit),
            None => self.answers.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match answer {
            Ok(answer) => {
                self.is_pending = false;
                Ok(Some(answer))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(LinuxError::Missing {
                what: "the thread that commands kdamonds has ended".into(),
                remedy: "see the log for the reason, and restart".into(),
            }),
        }
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        self.orders = None;
        // The thread closes the channel of answers once it has stopped everything.
        while self.answers.recv_timeout(TO_END).is_ok() {}
        if let Some(thread) = self.thread.take_if(|thread| thread.is_finished()) {
            let _ = thread.join();
        }
    }
}

/// State of the thread that commands kdamonds.
#[derive(Debug)]
pub(super) struct Commander {
    roots: Roots,
    admin: Admin,
    attrs: DamonAttrs,
    max_kdamonds: u32,
    /// Another thread reads regions from the tracepoint.
    traced: bool,
    kdamonds: Vec<Kdamond>,
    /// Process of each kdamond.
    assigned: Vec<Option<Process>>,
    /// Intervals that were last set for each kdamond.
    given: Vec<DamonAttrs>,
    /// Thread of each kdamond that is on. Reading it from sysfs would need DAMON's lock.
    threads: Vec<Option<Process>>,
    rotation: RoundRobin,
    collections: u32,
    selected: Vec<Process>,
    reader: Reader,
    changes: VecDeque<TargetChange>,
    /// CPU time of stopped kdamonds.
    ended: Duration,
}

impl Commander {
    pub(super) fn new(roots: &Roots, admin: Admin, attrs: DamonAttrs, max_kdamonds: u32) -> Self {
        Self {
            roots: roots.clone(),
            admin,
            attrs,
            max_kdamonds,
            traced: false,
            kdamonds: Vec::new(),
            assigned: Vec::new(),
            given: Vec::new(),
            threads: Vec::new(),
            rotation: RoundRobin::default(),
            collections: 0,
            selected: Vec::new(),
            reader: Reader::default(),
            changes: VecDeque::new(),
            ended: Duration::ZERO,
        }
    }

    /// Leaves reading regions to another thread.
    pub(super) fn leave_reading(&mut self) {
        self.traced = true;
    }

    fn run(&mut self, attrs: DamonAttrs, order: DamonOrder) -> DamonAnswer {
        self.attrs = attrs;
        let (mut sampled, mut regions) = (Vec::new(), Vec::new());
        let result = match order {
            DamonOrder::Targets(processes) => self.set_targets(&processes),
            DamonOrder::Collect => self.collect(&mut sampled, &mut regions),
            DamonOrder::Stop => self.stop(),
        };
        let result = result.or_else(|problem| self.postpone(problem));
        let changes = std::mem::take(&mut self.changes);
        DamonAnswer { changes, sampled, regions, ended: self.ended, result }
    }

    /// True if regions can be read without a command.
    fn reads_on(&self) -> bool {
        self.traced && self.assigned.iter().any(Option::is_some)
    }

    /// Postpones an order while another program's command holds DAMON's lock: regions are still
    /// read, and the order is given again in the next round.
    fn postpone(&self, problem: LinuxError) -> Result<()> {
        if !(self.reads_on() && problem.is_busy()) {
            return Err(problem);
        }
        tracing::debug!(%problem, "commands to kdamonds are postponed");
        Ok(())
    }

    fn set_targets(&mut self, processes: &[MonitorTarget]) -> Result<()> {
        self.rotation.set(processes);
        let still = |p: &Process| processes.iter().any(|target| target.process == *p);
        for place in 0..self.assigned.len() {
            if self.assigned[place].is_some_and(|p| !still(&p)) {
                self.leave(place)?;
            }
        }
        // A turn is cut short only if a process would otherwise wait although there is a place. A
        // kdamond that waits for a process that is no longer a target does not count.
        let busy = self.assigned.iter().flatten().filter(|process| still(process)).count();
        let places =
            if self.kdamonds.is_empty() { self.max_kdamonds as usize } else { self.kdamonds.len() };
        if busy < places.min(self.rotation.len()) { self.assign() } else { Ok(()) }
    }

    fn collect(&mut self, sampled: &mut Vec<Process>, out: &mut Vec<ProcessRegion>) -> Result<()> {
        let mut regions: Vec<HostRegion> = Vec::new();
        for place in 0..self.assigned.len() {
            let Some(process) = self.assigned[place] else { continue };
            self.give_attrs(place)?;
            if !self.traced && self.read(place, &mut regions)? {
                sampled.push(process);
                out.extend(regions.iter().map(|&region| ProcessRegion { process, region }));
            }
        }
        self.collections += 1;
        if self.collections.is_multiple_of(COLLECTIONS_PER_ROUND)
            && self.rotation.len() > self.kdamonds.len()
        {
            self.assign()?;
        }
        Ok(())
    }

    /// Sets the current intervals and bounds of a kdamond, unless it waits.
    fn give_attrs(&mut self, place: usize) -> Result<()> {
        if self.given[place] != self.attrs && !self.is_waiting(place) {
            self.kdamonds[place].set_attrs(&self.attrs)?;
            self.given[place] = self.attrs;
        }
        Ok(())
    }

    /// True if the thread of a kdamond waits for a lock. A command to it would wait as long.
    fn is_waiting(&mut self, place: usize) -> bool {
        self.stat(place).is_some_and(|stat| stat.is_uninterruptible())
    }

    fn stat(&mut self, place: usize) -> Option<ProcessStat> {
        read_stat(self.threads[place]?, &self.roots, &mut self.reader)
    }

    /// Starts a turn: assigns the next processes to kdamonds.
    fn assign(&mut self) -> Result<()> {
        let wanted = self.rotation.len().min(self.max_kdamonds as usize);
        if self.kdamonds.is_empty() && wanted > 0 {
            // All kdamonds are made at once: while one runs, the kernel makes no more.
            self.kdamonds = self.admin.take(self.max_kdamonds)?;
            self.assigned = vec![None; self.kdamonds.len()];
            self.given = vec![self.attrs; self.kdamonds.len()];
            self.threads = vec![None; self.kdamonds.len()];
        }
        self.rotation.next(self.kdamonds.len(), &mut self.selected);
        for place in 0..self.assigned.len() {
            match self.assigned[place] {
                Some(p) if self.selected.contains(&p) => self.selected.retain(|&c| c != p),
                Some(_) => self.leave(place)?,
                None => (),
            }
        }
        let mut changed = false;
        while let Some(process) = self.selected.pop() {
            let Some(place) = self.assigned.iter().position(Option::is_none) else { break };
            changed |= self.start(place, process)?;
        }
        if changed { self.admin.note(&self.kdamonds, &mut self.reader) } else { Ok(()) }
    }

    /// Turns a kdamond on for a process; false if the process has exited.
    fn start(&mut self, place: usize, process: Process) -> Result<bool> {
        let task = match process.task(&self.roots, &mut self.reader) {
            Err(e) if e.is_of_machine() => return Err(e),
            Err(_) => return Ok(false),
            Ok(task) => task,
        };
        let target = DamonTarget::Process(task);
        let monitoring = Monitoring { target, attrs: self.attrs, schemes: vec![Scheme::stat()] };
        let reads_on = self.reads_on();
        let kdamond = &mut self.kdamonds[place];
        kdamond.configure(&monitoring)?;
        let answer = if reads_on { kdamond.try_on() } else { kdamond.on(&self.roots) };
        // DAMON finds a process by its pid alone, so the process's identity is checked afterwards.
        let alive = process.is_alive_with(&self.roots, &mut self.reader);
        if !alive {
            kdamond.off()?;
            return Ok(false);
        }
        answer?;
        self.assigned[place] = Some(process);
        self.given[place] = self.attrs;
        let thread = kdamond.thread(&self.roots, &mut self.reader)?;
        self.threads[place] = thread;
        self.changes.push_back(TargetChange::Started(Monitored { process, thread }));
        Ok(true)
    }

    /// Reads the regions of a kdamond through sysfs; false if there are none.
    fn read(&mut self, place: usize, regions: &mut Vec<HostRegion>) -> Result<bool> {
        if self.is_waiting(place) {
            return Ok(false);
        }
        let runs = self.kdamonds[place].regions(&mut self.reader, regions)?;
        if !runs {
            // The process has ended.
            self.leave(place)?;
        }
        Ok(runs)
    }

    /// Turns a kdamond off. One that waits keeps its place.
    fn leave(&mut self, place: usize) -> Result<()> {
        if self.is_waiting(place) {
            return Ok(());
        }
        let used = self.stat(place).map_or(Duration::ZERO, |stat| stat.cpu_time());
        self.kdamonds[place].off()?;
        self.ended += used;
        self.threads[place] = None;
        self.changes.extend(self.assigned[place].take().map(TargetChange::Left));
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        let (mut left, mut waiting) = (Vec::new(), Vec::new());
        for (place, kdamond) in std::mem::take(&mut self.kdamonds).into_iter().enumerate() {
            let process = self.assigned[place];
            self.changes.extend(process.map(TargetChange::Left));
            if let Some(stat) = self.stat(place) {
                self.ended += stat.cpu_time();
                if stat.is_uninterruptible() {
                    let pid = process.map_or(0, |process| process.pid);
                    waiting.push(format!("{} (for process {pid})", kdamond.index()));
                    kdamond.abandon();
                    continue;
                }
            }
            left.push(kdamond);
        }
        self.assigned.clear();
        self.threads.clear();
        self.admin.restore(left)?;
        if waiting.is_empty() {
            return Ok(());
        }
        Err(LinuxError::Missing {
            what: format!("kdamond {} waits for a lock and stays on", waiting.join(", ")),
            remedy: "end that process and run `tierwise restore`".into(),
        })
    }
}
