//! The channel to the thread that commands kdamonds.

use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use tierwise_core::observe::DamonAttrs;

use super::commander::Commander;
use super::orders::{DamonAnswer, DamonOrder};
use crate::error::{LinuxError, Result};
use crate::worker;

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
            loop {
                let has_ended = match commander.next_order(&ordered) {
                    Ok((attrs, order)) => answer.send(commander.run(attrs, order)).is_err(),
                    Err(RecvTimeoutError::Disconnected) => true,
                    Err(RecvTimeoutError::Timeout) => {
                        commander.end_turns_in_time();
                        false
                    }
                };
                if has_ended {
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
