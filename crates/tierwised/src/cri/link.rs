//! The socket of the container runtime's CRI service, and the thread that asks it.

use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context;
use crossbeam_channel::{Receiver, bounded};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::reader::{CriListing, CriReader};
use crate::pods::SharedPods;
use crate::system::optional::Feature;

/// Interval between two lists. A list of a hundred pods is some hundred kilobytes, and the pages of
/// a pod that has just started are where the kernel has put them for some seconds anyway.
const INTERVAL: Duration = Duration::from_secs(5);

/// A connection to the CRI service. Dropping it ends the connection.
pub struct CriLink {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    failures: Receiver<String>,
}

impl CriLink {
    /// Connects to a runtime and lists its pods. A thread lists them again and again, as long as
    /// NRI does not report them.
    ///
    /// # Errors
    /// There is no runtime at the socket, or it does not answer.
    pub fn start(path: &Path, pods: SharedPods) -> anyhow::Result<Self> {
        Self::start_with(path, pods, INTERVAL)
    }

    pub(super) fn start_with(
        path: &Path,
        pods: SharedPods,
        interval: Duration,
    ) -> anyhow::Result<Self> {
        let name = format!("kubernetes.cri: {}", path.display());
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let first = async {
            let mut reader = CriReader::connect(path).await?;
            list(&mut reader, &pods).await?;
            anyhow::Ok(reader)
        };
        let mut reader = runtime.block_on(first).with_context(|| name.clone())?;
        let (stop, mut stopped) = oneshot::channel();
        let (broken, failures) = bounded(1);
        let ask = move || {
            let reason = runtime.block_on(async {
                while timeout(interval, &mut stopped).await.is_err() {
                    if let Err(reason) = list(&mut reader, &pods).await {
                        return Some(reason);
                    }
                }
                None
            });
            pods.lock().lose_listing();
            if let Some(reason) = reason {
                // Without a receiver the daemon is ending.
                let _ = broken.send(format!("{name}: {reason:#}"));
            }
        };
        let thread = thread::Builder::new().name("cri".into()).spawn(ask)?;
        Ok(Self { stop: Some(stop), thread: Some(thread), failures })
    }
}

/// Lists what runs, unless NRI reports it.
async fn list(reader: &mut CriReader, pods: &SharedPods) -> anyhow::Result<()> {
    if pods.lock().is_told() {
        return Ok(());
    }
    let CriListing { pods: sandboxes, containers, refusals } = reader.list().await?;
    pods.lock().take_listing(&reader.runtime, sandboxes, containers, refusals);
    Ok(())
}

impl Feature for CriLink {
    fn failures(&self) -> Receiver<String> {
        self.failures.clone()
    }
}

impl Drop for CriLink {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A panic of that thread was reported when it happened.
            let _ = thread.join();
        }
    }
}
