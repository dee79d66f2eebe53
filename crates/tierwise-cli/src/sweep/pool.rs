//! Gives units to worker processes, and keeps what they answer.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tierwise_sweep::{SweepStore, Unit, UnitOutcome, UnitRecord};

use super::of_store;
use super::process::{Children, WorkerProcess};
use crate::failure::{CommandResult, Failure};
use crate::output::print_error_line;
use crate::progress::RunProgress;

/// Workers that a unit may kill: the second death is no accident.
const TRIES: u32 = 2;

/// Time between two looks at Ctrl-C: too short to be noticed.
const LOOK: Duration = Duration::from_millis(50);

/// Why a sweep ended before its last unit.
pub enum Stopped {
    /// The user asked.
    Asked,
    /// Something failed.
    Failed(Failure),
}

/// A unit to run, and the workers that died with it.
struct Job<'a> {
    unit: &'a Unit,
    deaths: u32,
}

/// What a thread reports.
enum Message<'a> {
    Record(&'a Unit, UnitRecord),
    Death(String),
    Failed(Failure),
}

/// The units that no worker has.
struct Queue<'a>(Mutex<VecDeque<Job<'a>>>);

impl<'a> Queue<'a> {
    fn take(&self) -> Option<Job<'a>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Puts a unit at the end: one that fills the memory is tried again when others are done.
    fn again(&self, job: Job<'a>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(job);
    }

    fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Runs units on worker processes and appends their records to the store.
pub fn run(
    units: &[&Unit],
    jobs: usize,
    stop: &AtomicBool,
    store: &mut SweepStore,
) -> Result<(), Stopped> {
    let jobs_waiting = units.iter().map(|&unit| Job { unit, deaths: 0 }).collect();
    let queue = Queue(Mutex::new(jobs_waiting));
    let children = Children::default();
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..jobs {
            let (sender, queue, children) = (sender.clone(), &queue, &children);
            scope.spawn(move || serve(queue, children, &sender));
        }
        drop(sender);
        let collected = collect(units.len(), &receiver, stop, store);
        // Threads that wait for their workers wait no longer; nothing new starts.
        if collected.is_err() {
            queue.clear();
            children.end();
        }
        collected
    })
}

/// One thread: takes units and runs them on its worker until there is none.
fn serve<'a>(queue: &Queue<'a>, children: &Children, sender: &Sender<Message<'a>>) {
    let mut worker = None;
    while let Some(mut job) = queue.take() {
        let mut process = match worker.take().map_or_else(|| WorkerProcess::start(children), Ok) {
            Ok(process) => process,
            Err(why) => {
                // A send fails when the sweep has ended.
                let _ = sender.send(Message::Failed(Failure::Internal(why)));
                return;
            }
        };
        if let Some(record) = process.run(job.unit) {
            worker = Some(process);
            let _ = sender.send(Message::Record(job.unit, record));
            continue;
        }
        let (pid, death) = (process.pid, process.death());
        job.deaths += 1;
        let again = if job.deaths < TRIES { "the unit is tried once more" } else { "given up" };
        let words = job.unit.words();
        let _ =
            sender.send(Message::Death(format!("worker {pid} was {death} with {words}: {again}")));
        if job.deaths < TRIES {
            queue.again(job);
        } else {
            let outcome = UnitOutcome::Died(format!("its worker was {death}, {TRIES} times"));
            let record = UnitRecord { key: job.unit.key.clone(), seconds: 0.0, outcome };
            let _ = sender.send(Message::Record(job.unit, record));
        }
    }
}

/// Keeps records as they come, until all units have one.
fn collect(
    units: usize,
    receiver: &Receiver<Message<'_>>,
    stop: &AtomicBool,
    store: &mut SweepStore,
) -> Result<(), Stopped> {
    let progress = RunProgress::new(units);
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(Stopped::Asked);
        }
        match receiver.recv_timeout(LOOK) {
            Ok(Message::Record(unit, record)) => {
                progress.job(&unit.scenario_name, &unit.recipe_name).done();
                keep(record, store).map_err(Stopped::Failed)?;
            }
            // A thread that dies with its worker when Ctrl-C has come is no news.
            Ok(Message::Death(words)) => {
                if !stop.load(Ordering::Relaxed) {
                    progress.pause(|| print_error_line(format_args!("{words}")));
                }
            }
            Ok(Message::Failed(failure)) => return Err(Stopped::Failed(failure)),
            Err(RecvTimeoutError::Timeout) => (),
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

fn keep(record: UnitRecord, store: &mut SweepStore) -> CommandResult {
    store.append(record).map_err(|error| of_store(&error))
}
