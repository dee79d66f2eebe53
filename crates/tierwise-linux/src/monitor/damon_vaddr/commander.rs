//! The thread that commands kdamonds: turns them on for processes and off again, sets their
//! intervals, and reads regions through sysfs if there is no tracepoint.
//!
//! A command can wait for as long as a process of its kdamond holds its mmap lock, and DAMON
//! executes one command at a time. The thread that reads the tracepoint therefore does not wait for
//! this one.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use tierwise_core::observe::DamonAttrs;
use tierwise_core::units::Timestamp;

use crate::damon::{Admin, DamonTarget, HostRegion, Kdamond, Monitoring, Scheme};
use crate::error::{LinuxError, Result};
use crate::monitor::rotation::RoundRobin;
use crate::monitor::{MonitorTarget, ProcessRegion, thread_cpu};
use crate::pace::Pace;
use crate::process::{Process, ProcessStat, Reader};
use crate::roots::Roots;

use super::orders::{DamonAnswer, DamonOrder, KdamondChange, Monitored, cpu_time, read_stat};
use super::{GROUP, TURN};

/// Checks at the end of whether a thread waits, and the pause between two: a fifth of a second, in
/// which a page fault of a process ends, and which a daemon that ends has for each thread.
const LAST_CHECKS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(10);

/// A kdamond and its turn.
#[derive(Debug)]
struct Place {
    kdamond: Kdamond,
    /// Its processes, in the order of its targets; none while it is off.
    processes: Vec<Process>,
    /// Intervals that were last set.
    given: DamonAttrs,
    /// Its thread while it is on. Reading it from sysfs would need DAMON's lock.
    thread: Option<Process>,
    /// Start of the turn.
    since: Timestamp,
    /// The turn could not be ended in time.
    overdue: bool,
}

/// State of the thread that commands kdamonds.
#[derive(Debug)]
pub(super) struct Commander {
    roots: Roots,
    admin: Admin,
    attrs: DamonAttrs,
    max_kdamonds: usize,
    /// Another thread reads regions from the tracepoint.
    traced: bool,
    places: Vec<Place>,
    rotation: RoundRobin,
    /// Pace of turns; without one they wait for nothing.
    pace: Option<Pace>,
    started: Instant,
    /// CPU time of kdamonds and of this thread that turns were charged for.
    charged: Duration,
    selected: Vec<Process>,
    reader: Reader,
    changes: VecDeque<KdamondChange>,
    /// CPU time of stopped kdamonds.
    ended: Duration,
}

impl Commander {
    pub(super) fn new(roots: &Roots, admin: Admin, attrs: DamonAttrs, max_kdamonds: u32) -> Self {
        Self {
            roots: roots.clone(),
            admin,
            attrs,
            max_kdamonds: max_kdamonds as usize,
            traced: false,
            places: Vec::new(),
            rotation: RoundRobin::default(),
            pace: None,
            started: Instant::now(),
            charged: Duration::ZERO,
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

    /// Sets the pace of turns.
    pub(super) fn set_pace(&mut self, pace: Pace) {
        self.pace = Some(pace);
    }

    /// Waits for an order, at most until a turn ends.
    pub(super) fn next_order(
        &self,
        orders: &Receiver<(DamonAttrs, DamonOrder)>,
    ) -> std::result::Result<(DamonAttrs, DamonOrder), RecvTimeoutError> {
        match self.turn_end() {
            Some(end) => orders.recv_timeout(end.since(self.now())),
            None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    /// The time at which the next turn ends without an order. Only where regions are read from the
    /// tracepoint: what was reported can be read after the turn. A kdamond that waits for a lock
    /// is looked at again by the next order.
    fn turn_end(&self) -> Option<Timestamp> {
        let (length, takes_turns) = (self.attrs.aggregation * TURN, self.takes_turns());
        let ends = |place: &Place| place.is_on() && !place.overdue && takes_turns;
        let on = self.places.iter().filter(|place| self.traced && ends(place));
        on.map(|place| place.since + length).min()
    }

    /// Ends turns in time. The next order, which starts other turns, may come many seconds later,
    /// and a kdamond costs as much after its turn as in it.
    pub(super) fn end_turns_in_time(&mut self) {
        // One time for both steps: to end a turn takes a while, and a turn whose time passes
        // meanwhile was not tried yet.
        let (now, length) = (self.now(), self.attrs.aggregation * TURN);
        if let Err(problem) = self.end_turns(now) {
            tracing::debug!(%problem, "turns end with the next order");
        }
        for place in self.places.iter_mut().filter(|place| now.since(place.since) >= length) {
            place.overdue = place.is_on();
        }
    }

    pub(super) fn run(&mut self, attrs: DamonAttrs, order: DamonOrder) -> DamonAnswer {
        self.attrs = attrs;
        let (mut sampled, mut regions) = (Vec::new(), Vec::new());
        let result = match order {
            DamonOrder::Targets(processes) => self.set_targets(&processes),
            DamonOrder::Collect => self.collect(&mut sampled, &mut regions),
            DamonOrder::Stop => self.stop(),
        };
        let result = result.or_else(|problem| self.postpone(problem));
        let (changes, takes_turns) = (std::mem::take(&mut self.changes), self.takes_turns());
        DamonAnswer { changes, sampled, regions, takes_turns, ended: self.ended, result }
    }

    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.started.elapsed()
    }

    /// True if processes take turns, because there are more than kdamonds.
    fn takes_turns(&self) -> bool {
        let places = self.places.len();
        self.rotation.len() > if places == 0 { self.max_kdamonds } else { places }
    }

    /// True if regions can be read without a command.
    fn reads_on(&self) -> bool {
        self.traced && self.places.iter().any(Place::is_on)
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
        let took_turns = self.takes_turns();
        self.rotation.set(processes);
        if !took_turns {
            // What was spent before the first turn is not charged for turns.
            self.charged = self.spent();
        }
        self.fill()
    }

    fn collect(&mut self, sampled: &mut Vec<Process>, out: &mut Vec<ProcessRegion>) -> Result<()> {
        let mut regions: Vec<HostRegion> = Vec::new();
        for place in 0..self.places.len() {
            // Without the tracepoint a kdamond has one process.
            let Some(&process) = self.places[place].processes.first() else { continue };
            self.give_attrs(place)?;
            if !self.traced && self.read(place, &mut regions)? {
                sampled.push(process);
                out.extend(regions.iter().map(|&region| ProcessRegion { process, region }));
            }
        }
        self.fill()
    }

    /// Turns off the kdamonds of processes that are no longer to be monitored, and those whose turn
    /// has lasted long enough, if other processes wait, or if its processes could have a kdamond
    /// each.
    fn end_turns(&mut self, now: Timestamp) -> Result<()> {
        let takes_turns = self.takes_turns();
        for place in 0..self.places.len() {
            let Place { processes, since, .. } = &self.places[place];
            let stays = processes.iter().any(|process| self.rotation.holds(process));
            let shares = takes_turns || processes.len() > 1;
            let passed = now.since(*since) >= self.attrs.aggregation * TURN;
            if !processes.is_empty() && (!stays || shares && passed) {
                self.leave(place)?;
            }
        }
        Ok(())
    }

    /// CPU time so far of all kdamonds and of this thread, which commands them.
    fn spent(&mut self) -> Duration {
        let (roots, reader) = (&self.roots, &mut self.reader);
        let threads = self.places.iter().filter_map(|place| place.thread);
        let running: Duration = threads.map(|thread| cpu_time(thread, roots, reader)).sum();
        self.ended + running + thread_cpu()
    }

    /// Charges turns for the CPU time since the last charge.
    fn charge(&mut self) {
        if self.pace.is_none() || !self.takes_turns() {
            return;
        }
        let (now, spent) = (self.now(), self.spent());
        let cost = spent.saturating_sub(self.charged);
        self.charged = self.charged.max(spent);
        self.pace.iter_mut().for_each(|pace| pace.charge(now, cost));
    }

    /// True if a turn may start: the last ones are paid for. Processes that take no turns do not
    /// wait.
    fn may_start(&self) -> bool {
        let now = self.now();
        !self.takes_turns() || self.pace.is_none_or(|pace| pace.is_paid(now))
    }

    /// Sets the current intervals and bounds of a kdamond, unless it waits.
    fn give_attrs(&mut self, place: usize) -> Result<()> {
        if self.places[place].given != self.attrs && !self.is_waiting(place) {
            let place = &mut self.places[place];
            place.kdamond.set_attrs(&attrs_of(&self.attrs, place.processes.len()))?;
            place.given = self.attrs;
        }
        Ok(())
    }

    /// True if the thread of a kdamond waits for a lock. A command to it would wait as long.
    fn is_waiting(&mut self, place: usize) -> bool {
        self.stat(place).is_some_and(|stat| stat.is_uninterruptible())
    }

    fn stat(&mut self, place: usize) -> Option<ProcessStat> {
        read_stat(self.places[place].thread?, &self.roots, &mut self.reader)
    }

    /// Ends turns, and starts kdamonds for processes that wait.
    fn fill(&mut self) -> Result<()> {
        self.end_turns(self.now())?;
        // Before the charge: orders have a cost even where no turn starts. If each were to wait
        // until its own is paid, no turn would ever start.
        let mut may_start = self.may_start();
        self.charge();
        self.take_kdamonds()?;
        let on = self.places.iter().flat_map(|place| &place.processes);
        let on = on.filter(|process| self.rotation.holds(process)).count();
        let is_full = self.places.iter().all(Place::is_on);
        if is_full || on >= self.rotation.len() || !may_start {
            return Ok(());
        }
        let mut chosen = self.chosen();
        for place in 0..self.places.len() {
            if self.places[place].is_on() {
                continue;
            }
            if !may_start || !self.select(&chosen) {
                break;
            }
            chosen.extend(self.selected.iter().map(|&process| (process, false)));
            chosen.sort_unstable();
            if self.start(place)? {
                let Place { kdamond, thread, .. } = &self.places[place];
                self.admin.note_thread(kdamond, *thread)?;
            }
            self.charge();
            may_start = self.may_start();
        }
        Ok(())
    }

    fn take_kdamonds(&mut self) -> Result<()> {
        if self.places.is_empty() && !self.rotation.is_empty() {
            // All kdamonds are made at once: while one runs, the kernel makes no more.
            let taken = self.admin.take(self.max_kdamonds as u32)?.into_iter();
            self.places = taken.map(|kdamond| Place::new(kdamond, self.attrs)).collect();
        }
        Ok(())
    }

    /// The processes of kdamonds that are on, ascending. True marks a suspect: it shares a kdamond
    /// that waits for a lock of any of its processes.
    fn chosen(&mut self) -> Vec<(Process, bool)> {
        let mut chosen = Vec::new();
        for place in 0..self.places.len() {
            let suspects = self.places[place].processes.len() > 1 && self.is_waiting(place);
            let processes = self.places[place].processes.iter();
            chosen.extend(processes.map(|&process| (process, suspects)));
        }
        chosen.sort_unstable();
        chosen
    }

    /// Selects the processes of the next turn; false if there are none. A suspect gets a turn of
    /// its own, so that it delays no other process once more.
    fn select(&mut self, chosen: &[(Process, bool)]) -> bool {
        let is_on = |process: &Process| chosen.binary_search(&(*process, false)).is_ok();
        let is_suspect = |process: &Process| chosen.binary_search(&(*process, true)).is_ok();
        self.selected.clear();
        self.rotation.next(1, |process| !is_on(process), &mut self.selected);
        let Some(&first) = self.selected.first() else { return false };
        let group = if self.traced { self.rotation.len().div_ceil(self.places.len()) } else { 1 };
        if group > 1 && !is_suspect(&first) {
            let joins =
                |process: &Process| *process != first && !is_on(process) && !is_suspect(process);
            self.rotation.next(group.min(GROUP) - 1, joins, &mut self.selected);
        }
        true
    }

    /// Turns a kdamond on for the selected processes; false if they have exited.
    fn start(&mut self, place: usize) -> Result<bool> {
        let (mut processes, mut tasks) = (Vec::new(), Vec::new());
        for &process in &self.selected {
            match process.task(&self.roots, &mut self.reader) {
                Err(e) if e.is_of_machine() => return Err(e),
                Err(_) => {}
                Ok(task) => {
                    processes.push(process);
                    tasks.push(task);
                }
            }
        }
        if processes.is_empty() {
            return Ok(false);
        }
        let attrs = attrs_of(&self.attrs, processes.len());
        // The tracepoint reports regions without a scheme.
        let schemes = if self.traced { Vec::new() } else { vec![Scheme::stat()] };
        let monitoring = Monitoring { target: DamonTarget::Processes(tasks), attrs, schemes };
        let (reads_on, now) = (self.reads_on(), self.now());
        let kdamond = &mut self.places[place].kdamond;
        kdamond.configure(&monitoring)?;
        let answer = if reads_on { kdamond.try_on() } else { kdamond.on(&self.roots) };
        // DAMON finds a process by its pid alone, so the processes' identity is checked afterwards.
        let mut alive = |process: &Process| process.is_alive_with(&self.roots, &mut self.reader);
        if !processes.iter().all(&mut alive) {
            kdamond.off()?;
            return Ok(false);
        }
        answer?;
        let thread = kdamond.thread(&self.roots, &mut self.reader)?;
        let started = &mut self.places[place];
        (started.given, started.thread, started.since) = (self.attrs, thread, now);
        started.overdue = false;
        started.processes.clone_from(&processes);
        let monitored = Monitored { place, processes, thread };
        self.changes.push_back(KdamondChange::Started(monitored));
        Ok(true)
    }

    /// Reads the regions of a kdamond through sysfs; false if there are none.
    fn read(&mut self, place: usize, regions: &mut Vec<HostRegion>) -> Result<bool> {
        if self.is_waiting(place) {
            return Ok(false);
        }
        let runs = self.places[place].kdamond.regions(&mut self.reader, regions)?;
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
        let Place { kdamond, processes, thread, .. } = &mut self.places[place];
        let used = thread.map_or(Duration::ZERO, |t| cpu_time(t, &self.roots, &mut self.reader));
        kdamond.off()?;
        self.ended += used;
        *thread = None;
        processes.clear();
        self.changes.push_back(KdamondChange::Left(place));
        Ok(())
    }

    pub(super) fn stop(&mut self) -> Result<()> {
        let (mut left, mut waiting) = (Vec::new(), Vec::new());
        for (number, place) in std::mem::take(&mut self.places).into_iter().enumerate() {
            self.changes.push_back(KdamondChange::Left(number));
            let Some(thread) = place.thread else {
                left.push(place.kdamond);
                continue;
            };
            self.ended += cpu_time(thread, &self.roots, &mut self.reader);
            if keeps_waiting(thread, &self.roots, &mut self.reader) {
                waiting.push(format!("{} (for process {})", place.kdamond.index(), place.pids()));
                place.kdamond.abandon();
            } else {
                left.push(place.kdamond);
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
}

impl Place {
    fn new(kdamond: Kdamond, given: DamonAttrs) -> Self {
        let (processes, thread) = (Vec::new(), None);
        Self { kdamond, processes, given, thread, since: Timestamp::ZERO, overdue: false }
    }

    fn is_on(&self) -> bool {
        !self.processes.is_empty()
    }

    fn pids(&self) -> String {
        let pids: Vec<String> = self.processes.iter().map(|p| p.pid.to_string()).collect();
        pids.join(" or ")
    }
}

/// True if a thread waits for a lock at each of [`LAST_CHECKS`] checks. One check would take a
/// thread for locked out that waits for a page fault of its process.
fn keeps_waiting(thread: Process, roots: &Roots, reader: &mut Reader) -> bool {
    (0..LAST_CHECKS).all(|check| {
        if check > 0 {
            thread::sleep(PAUSE);
        }
        read_stat(thread, roots, reader).is_some_and(|stat| stat.is_uninterruptible())
    })
}

/// Intervals, and bounds for this many processes of one kdamond. The kernel starts with three
/// regions per process at least.
fn attrs_of(attrs: &DamonAttrs, processes: usize) -> DamonAttrs {
    let count = processes as u32;
    DamonAttrs {
        min_regions: attrs.min_regions.max(3 * count),
        max_regions: attrs.max_regions.saturating_mul(count.max(1)),
        ..*attrs
    }
}
