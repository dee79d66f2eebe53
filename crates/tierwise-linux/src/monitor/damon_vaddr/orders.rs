//! What the monitor and the thread that commands kdamonds tell each other.

use std::collections::VecDeque;
use std::time::Duration;

use crate::error::Result;
use crate::monitor::{MonitorTarget, ProcessRegion};
use crate::process::{Process, ProcessStat, Reader};
use crate::roots::Roots;

/// An order to the commander.
#[derive(Debug)]
pub(super) enum DamonOrder {
    /// Monitors these processes and no others.
    Targets(Vec<MonitorTarget>),
    /// Sets the current intervals of every kdamond, reads the kdamonds if there is no tracepoint,
    /// and ends and starts turns.
    Collect,
    /// Turns every kdamond off.
    Stop,
}

/// Result of an order.
#[derive(Debug)]
pub(super) struct DamonAnswer {
    pub changes: VecDeque<KdamondChange>,
    /// Processes whose regions were read through sysfs, and the regions.
    pub sampled: Vec<Process>,
    pub regions: Vec<ProcessRegion>,
    /// Processes take turns, because there are more than kdamonds.
    pub takes_turns: bool,
    /// CPU time of all stopped kdamonds.
    pub ended: Duration,
    pub result: Result<()>,
}

/// A kdamond that is on.
#[derive(Debug)]
pub(super) struct Monitored {
    /// Its place among the commander's kdamonds.
    pub place: usize,
    /// Its processes, in the order of its targets.
    pub processes: Vec<Process>,
    /// Its thread.
    pub thread: Option<Process>,
}

impl Monitored {
    /// Its CPU time so far; zero once it has ended.
    pub(super) fn cpu_time(&self, roots: &Roots, reader: &mut Reader) -> Duration {
        self.thread.map_or(Duration::ZERO, |thread| cpu_time(thread, roots, reader))
    }
}

/// CPU time of a kdamond's thread so far; zero if another thread has its number.
pub(super) fn cpu_time(thread: Process, roots: &Roots, reader: &mut Reader) -> Duration {
    let stat = read_stat(thread, roots, reader);
    stat.map_or(Duration::ZERO, |stat| stat.exact_cpu_time(roots, thread.pid, reader))
}

/// Reads the state of a kdamond's thread; `None` if another thread has its number.
pub(super) fn read_stat(
    thread: Process,
    roots: &Roots,
    reader: &mut Reader,
) -> Option<ProcessStat> {
    let stat = ProcessStat::read(roots, thread.pid, reader).ok()?;
    (stat.start_time == thread.start_time).then_some(stat)
}

/// A kdamond that was started or stopped.
#[derive(Debug)]
pub(super) enum KdamondChange {
    Started(Monitored),
    /// The place of one that was stopped.
    Left(usize),
}
