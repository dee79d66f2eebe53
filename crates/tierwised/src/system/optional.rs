//! Features without which the daemon still runs. One that cannot start, or that breaks down, is
//! retried, and nothing waits for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, after, bounded, never, select};

/// The first wait. A service that starts beside the daemon runs or has ended within seconds.
const MIN_WAIT: Duration = Duration::from_secs(1);

/// The longest wait: an operator who has freed a port sees the feature start within a minute.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// The unavailable features, with reasons.
#[derive(Debug, Clone, Default)]
pub struct Unavailable(Arc<Mutex<BTreeMap<&'static str, String>>>);

impl Unavailable {
    /// Each feature with its reason, by name.
    pub fn list(&self) -> Vec<(&'static str, String)> {
        self.lock().iter().map(|(name, reason)| (*name, reason.clone())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A feature that was started.
pub trait Feature: Send + 'static {
    /// Receives the reason if the feature breaks down while it runs.
    fn failures(&self) -> Receiver<String> {
        never()
    }
}

/// A feature that runs, or is tried again until it does. Dropping it ends both.
pub struct Optional {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Optional {
    /// Starts a feature by `attempt`, now or later. A failure is logged once and listed until an
    /// attempt succeeds.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start<T: Feature>(
        name: &'static str,
        unavailable: &Unavailable,
        attempt: impl FnMut() -> anyhow::Result<T> + Send + 'static,
    ) -> std::io::Result<Self> {
        Self::start_with(name, unavailable, attempt, MIN_WAIT)
    }

    fn start_with<T: Feature>(
        name: &'static str,
        unavailable: &Unavailable,
        mut attempt: impl FnMut() -> anyhow::Result<T> + Send + 'static,
        wait: Duration,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = bounded(0);
        let retried = Retried { name, unavailable: unavailable.clone(), stopped, first_wait: wait };
        let first = attempt();
        if let Err(e) = &first {
            retried.refuse(&format!("{e:#}"));
        }
        let run = move || retried.keep_running(first.ok(), attempt);
        let thread = thread::Builder::new().name(name.into()).spawn(run)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Optional {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A panic of that thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

/// The state of one feature in its own thread.
struct Retried {
    name: &'static str,
    unavailable: Unavailable,
    /// Never receives: the other end is dropped to end the feature.
    stopped: Receiver<()>,
    first_wait: Duration,
}

impl Retried {
    fn refuse(&self, reason: &str) {
        let name = self.name;
        tracing::warn!("{reason}; {name} is off until an attempt succeeds");
        self.unavailable.lock().insert(name, reason.to_owned());
    }

    fn keep_running<T: Feature>(
        &self,
        mut running: Option<T>,
        mut attempt: impl FnMut() -> anyhow::Result<T>,
    ) {
        loop {
            let Some(feature) = running.take().or_else(|| self.retry(&mut attempt)) else { return };
            select! {
                recv(self.stopped) -> _ => return,
                // The channel closes if the feature's thread panics.
                recv(feature.failures()) -> reason => {
                    self.refuse(&reason.unwrap_or_else(|_| "its thread has ended".to_owned()));
                }
            }
        }
    }

    /// Attempts after growing waits until one succeeds; `None` if the daemon ends before.
    fn retry<T>(&self, attempt: &mut impl FnMut() -> anyhow::Result<T>) -> Option<T> {
        let mut wait = self.first_wait;
        loop {
            select! {
                recv(self.stopped) -> _ => return None,
                recv(after(wait)) -> _ => {}
            }
            wait = (wait * 2).min(MAX_WAIT);
            match attempt() {
                Ok(feature) => {
                    tracing::info!("{} has started", self.name);
                    self.unavailable.lock().remove(self.name);
                    return Some(feature);
                }
                Err(e) => {
                    self.unavailable.lock().insert(self.name, format!("{e:#}"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;
    use crossbeam_channel::unbounded;

    use super::*;

    struct Reporting(Sender<&'static str>, Receiver<String>);

    impl Feature for Reporting {
        fn failures(&self) -> Receiver<String> {
            self.1.clone()
        }
    }

    impl Feature for () {}

    impl Drop for Reporting {
        fn drop(&mut self) {
            self.0.send("ended").unwrap();
        }
    }

    #[test]
    fn failed_feature_is_listed_and_retried() {
        let (unavailable, (message, received)) = (Unavailable::default(), unbounded());
        let mut busy = 3;
        let attempt = move || {
            if busy > 0 {
                busy -= 1;
                message.send("busy").unwrap();
                bail!("the port is in use");
            }
            message.send("started").unwrap();
            Ok(Reporting(message.clone(), never()))
        };
        let wait = Duration::from_millis(1);
        let feature = Optional::start_with("http", &unavailable, attempt, wait).unwrap();
        assert_eq!(received.recv().unwrap(), "busy");
        assert_eq!(received.iter().find(|what| *what != "busy"), Some("started"));
        drop(feature);
        assert_eq!(received.recv().unwrap(), "ended");
        assert_eq!(unavailable.list(), []);
    }

    #[test]
    fn broken_feature_is_listed_and_restarted() {
        let (unavailable, (events, seen)) = (Unavailable::default(), unbounded());
        let (broken, failures) = unbounded();
        let (list, attempted) = (unavailable.clone(), events);
        let attempt = move || {
            let reasons = list.list();
            attempted.send(if reasons.is_empty() { "started" } else { "restarted" }).unwrap();
            Ok(Reporting(attempted.clone(), failures.clone()))
        };
        let wait = Duration::from_millis(1);
        let feature = Optional::start_with("queue", &unavailable, attempt, wait).unwrap();
        assert_eq!(seen.recv().unwrap(), "started");
        broken.send("the queue is gone".to_owned()).unwrap();
        assert_eq!(seen.recv().unwrap(), "ended");
        assert_eq!(seen.recv().unwrap(), "restarted");
        drop(feature);
        assert_eq!(seen.recv().unwrap(), "ended");
        assert_eq!(unavailable.list(), []);
    }

    #[test]
    fn feature_that_never_starts_ends_with_daemon() {
        let unavailable = Unavailable::default();
        let attempt = || -> anyhow::Result<()> { bail!("the name is another's") };
        let feature = Optional::start("queue", &unavailable, attempt).unwrap();
        assert_eq!(unavailable.list(), [("queue", "the name is another's".to_owned())]);
        drop(feature);
    }
}
