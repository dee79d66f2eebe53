//! A run in a thread of its own.

use std::process;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender};
use tierwise_core::recipe::Recipe;
use tierwise_sim::error::SimError;
use tierwise_sim::run::{Prepared, RunOptions, run};

use crate::remote::{Remote, RemoteDecision};
use crate::stop;
use crate::switch::Switch;

/// The result of a run's thread: nothing if it was stopped.
type Outcome = Option<Result<(), SimError>>;

/// A run under way. Dropping it closes the channels, which ends the run, and then waits for its
/// thread: fields are dropped in their order.
pub(crate) struct Running {
    /// The decision to make. Closed when the run is over.
    pub decisions: Receiver<RemoteDecision>,
    /// The channel for the answers.
    pub actions: Sender<f64>,
    thread: Thread,
}

impl Running {
    /// Starts a run and returns it with its decisions.
    pub(crate) fn start(
        prepared: Arc<Prepared>,
        switch: &Arc<Switch>,
        recipe: Recipe,
        seed: u64,
    ) -> Self {
        let (remote, decisions, actions) = Remote::new();
        let remote = Arc::new(remote);
        switch.set(Arc::clone(&remote) as _);
        let back = Back(Arc::clone(switch));
        let thread = thread::spawn(move || {
            let _back = back;
            let options = RunOptions { seed, ..RunOptions::default() };
            // Stages are made before the first round: a recipe that has no agent by then decides by
            // itself, and there is nothing to wait for.
            let mut progress = |_| {
                if !remote.was_asked() {
                    stop::now();
                }
            };
            let run = || run(&prepared, &recipe, &options, &mut progress).map(|_| ());
            let outcome = stop::unless_stopped(run);
            drop(remote);
            outcome
        });
        Self { decisions, actions, thread: Thread { handle: Some(thread), process: process::id() } }
    }

    /// Returns true if the run's thread is in this process. A forked child does not have its
    /// parent's threads.
    pub(crate) fn is_here(&self) -> bool {
        self.thread.process == process::id()
    }

    /// Ends the run.
    ///
    /// # Errors
    /// The run ended with an error.
    pub(crate) fn end(self) -> Result<(), SimError> {
        let Self { decisions, actions, mut thread } = self;
        drop((decisions, actions));
        match thread.join() {
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            Some(Ok(Some(outcome))) => outcome,
            Some(Ok(None)) | None => Ok(()),
        }
    }
}

/// Sets the shipped learner again, also if the run panicked. While the switch holds the remote
/// learner, that learner's channel is open.
struct Back(Arc<Switch>);

impl Drop for Back {
    fn drop(&mut self) {
        self.0.set(tierwise_learn::learning());
    }
}

struct Thread {
    handle: Option<JoinHandle<Outcome>>,
    process: u32,
}

impl Thread {
    /// Returns its result; `None` in a fork, where a wait would never end.
    fn join(&mut self) -> Option<thread::Result<Outcome>> {
        let here = self.process == process::id();
        self.handle.take().filter(|_| here).map(JoinHandle::join)
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // A caller that drops a run does not need its result.
        drop(self.join());
    }
}
