//! Features that the daemon can do without: one that cannot start is tried again, and nothing else
//! waits for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

/// The first wait. What a service manager starts beside the daemon is up or gone within seconds.
const MIN_WAIT: Duration = Duration::from_secs(1);

/// The longest wait: an operator who has freed a port sees the feature start within a minute.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Which features are unavailable, and why.
#[derive(Debug, Clone, Default)]
pub struct Unavailable(Arc<Mutex<BTreeMap<&'static str, String>>>);

impl Unavailable {
    /// Each with its reason, by name.
    pub fn list(&self) -> Vec<(&'static str, String)> {
        self.lock().iter().map(|(name, reason)| (*name, reason.clone())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
    pub fn start<T: Send + 'static>(
        name: &'static str,
        unavailable: &Unavailable,
        attempt: impl FnMut() -> anyhow::Result<T> + Send + 'static,
    ) -> std::io::Result<Self> {
        Self::start_with(name, unavailable, attempt, MIN_WAIT)
    }

    fn start_with<T: Send + 'static>(
        name: &'static str,
        unavailable: &Unavailable,
        mut attempt: impl FnMut() -> anyhow::Result<T> + Send + 'static,
        wait: Duration,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = bounded(0);
        let unavailable = unavailable.clone();
        let first = attempt();
        if let Err(e) = &first {
            tracing::warn!("{e:#}; {name} is off until then, and tried again");
            unavailable.lock().insert(name, format!("{e:#}"));
        }
        let run = move || {
            let running = match first {
                Ok(feature) => Some(feature),
                Err(_) => again(name, &unavailable, attempt, &stopped, wait),
            };
            // Nothing is sent: the other end is dropped to end the feature.
            let _ = stopped.recv();
            drop(running);
        };
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

fn again<T>(
    name: &'static str,
    unavailable: &Unavailable,
    mut attempt: impl FnMut() -> anyhow::Result<T>,
    stopped: &Receiver<()>,
    mut wait: Duration,
) -> Option<T> {
    loop {
        let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(wait) else { return None };
        wait = (wait * 2).min(MAX_WAIT);
        match attempt() {
            Ok(feature) => {
                tracing::info!("{name} has started");
                unavailable.lock().remove(name);
                return Some(feature);
            }
            Err(e) => {
                unavailable.lock().insert(name, format!("{e:#}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;
    use crossbeam_channel::unbounded;

    use super::*;

    struct Feature(Sender<&'static str>);

    impl Drop for Feature {
        fn drop(&mut self) {
            self.0.send("ended").unwrap();
        }
    }

    #[test]
    fn one_that_cannot_start_is_listed_and_tried_again() {
        let (unavailable, (said, heard)) = (Unavailable::default(), unbounded());
        let mut busy = 3;
        let attempt = move || {
            if busy > 0 {
                busy -= 1;
                said.send("busy").unwrap();
                bail!("the port is in use");
            }
            said.send("started").unwrap();
            Ok(Feature(said.clone()))
        };
        let wait = Duration::from_millis(1);
        let feature = Optional::start_with("http", &unavailable, attempt, wait).unwrap();
        assert_eq!(heard.recv().unwrap(), "busy");
        assert_eq!(heard.iter().find(|what| *what != "busy"), Some("started"));
        drop(feature);
        assert_eq!(heard.recv().unwrap(), "ended");
        assert_eq!(unavailable.list(), []);
    }

    #[test]
    fn one_that_never_starts_ends_with_the_daemon() {
        let unavailable = Unavailable::default();
        let attempt = || -> anyhow::Result<()> { bail!("the name is another's") };
        let feature = Optional::start("queue", &unavailable, attempt).unwrap();
        assert_eq!(unavailable.list(), [("queue", "the name is another's".to_owned())]);
        drop(feature);
    }
}
