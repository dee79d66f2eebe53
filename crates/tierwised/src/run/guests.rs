//! The CPUs and memory devices of virtual machines whose tenants name a QMP socket. The daemon
//! queries QEMU when a guest starts, each guest in a task of its own on the thread for tenants'
//! services: a QEMU that hangs must not delay the others.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use crossbeam_channel::{Receiver, Sender, unbounded};
use tierwise_core::units::TenantId;
use tierwise_linux::bytes::quoted;
use tierwise_linux::qemu::{Dialogue, Guest, MemoryDevice, QmpStep};
use tokio::net::UnixStream;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::peers::{PeerStream, Peers};
use crate::config::Config;

/// Max time for all of QEMU's answers: its main loop answers within milliseconds unless it hangs.
const PATIENCE: Duration = Duration::from_secs(5);

/// Min time between two requests to a guest that starts again and again.
const INTERVAL: Duration = Duration::from_secs(60);

/// Time until the next attempt at a QEMU whose queue of connections is full.
const RETRY: Duration = Duration::from_millis(50);

/// Max bytes per read.
const PIECE: usize = 16 << 10;

/// Max CPUs and memory devices of a guest that are listed: the number that fits in a line.
const MAX_LISTED: usize = 8;

/// Requests to guests, and their answers.
pub(super) struct Guests {
    sender: Sender<String>,
    answers: Receiver<String>,
    patience: Duration,
    /// The last request of each tenant, and its time.
    asked: BTreeMap<String, (AbortHandle, Instant)>,
}

impl Guests {
    pub(super) fn new() -> Self {
        let (sender, answers) = unbounded();
        Self { sender, answers, patience: PATIENCE, asked: BTreeMap::new() }
    }

    /// Queries the tenants that have a QMP socket. A new query ends the tenant's previous one.
    pub(super) fn ask(&mut self, started: &[TenantId], config: &Config, peers: &Peers) {
        // The answers of removed tenants are not needed.
        self.asked.retain(|name, (task, _)| {
            let stays = config.tenants.iter().any(|tenant| tenant.name == *name);
            if !stays {
                task.abort();
            }
            stays
        });
        for tenant in started.iter().filter_map(|tenant| config.tenants.get(tenant.index())) {
            let Some(path) = tenant.qmp().map(PathBuf::from) else { continue };
            let now = Instant::now();
            let before = self.asked.get(&tenant.name);
            let at = before.map_or(now, |(_, at)| now.max(*at + INTERVAL));
            if let Some((task, _)) = before {
                task.abort();
            }
            let (name, sender, patience) =
                (tenant.name.clone(), self.sender.clone(), self.patience);
            let task = peers.spawn(async move {
                sleep_until(at).await;
                let guest = timeout(patience, talk(&path)).await;
                let late = |_| {
                    anyhow::anyhow!(
                        "no whole answer within {patience:?}; does another client hold the socket?"
                    )
                };
                let guest = guest.map_err(late).flatten();
                let guest = guest.with_context(|| path.display().to_string());
                // A daemon that ended meanwhile needs no answer.
                let _ = sender.send(words(&name, &guest));
            });
            if let Some(task) = task {
                self.asked.insert(tenant.name.clone(), (task, at));
            }
        }
    }

    /// The answers since the last call, as lines.
    pub(super) fn answers(&self) -> Vec<String> {
        self.answers.try_iter().collect()
    }
}

/// A conversation with the QEMU behind a socket.
async fn talk(path: &Path) -> anyhow::Result<Guest> {
    let stream = connect(path).await.with_context(|| {
        format!(
            "cannot connect; is QEMU running with -qmp unix:{},server=on,wait=off?",
            path.display()
        )
    })?;
    let mut dialogue = Dialogue::default();
    let mut piece = vec![0; PIECE];
    loop {
        match dialogue.step()? {
            QmpStep::Done(guest) => return Ok(guest),
            QmpStep::Send(command) => stream.send(command.as_bytes()).await?,
            QmpStep::Read => {
                let read = stream.read(&mut piece).await?;
                dialogue.take(&piece[..read])?;
            }
        }
    }
}

async fn connect(path: &Path) -> io::Result<PeerStream> {
    loop {
        match UnixStream::connect(path).await {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => sleep(RETRY).await,
            other => return other.map(PeerStream::Unix),
        }
    }
}

/// Describes a guest in a line. A guest that does not answer is still a tenant: its process was
/// found.
fn words(name: &str, guest: &anyhow::Result<Guest>) -> String {
    let guest = match guest {
        Ok(guest) => guest,
        Err(e) => {
            return format!(
                "tenant {name:?}: the CPUs and memory devices of its guest are unknown: {e:#}"
            );
        }
    };
    let device =
        |device: &MemoryDevice| format!("{} of {} MiB", quoted(&device.backend), device.size >> 20);
    format!(
        "tenant {name:?}: a guest with {} CPUs (threads {}) and memory devices: {}",
        guest.vcpus.len(),
        listed(&guest.vcpus, |vcpu| vcpu.thread_id.to_string()),
        listed(&guest.memory, device)
    )
}

/// The first [`MAX_LISTED`] items, and the number of the others.
fn listed<T>(all: &[T], word: impl FnMut(&T) -> String) -> String {
    let mut words: Vec<String> = all.iter().take(MAX_LISTED).map(word).collect();
    match all.len() - words.len() {
        0 if words.is_empty() => words.push("none".into()),
        0 => {}
        more => words.push(format!("and {more} more")),
    }
    words.join(", ")
}

#[cfg(test)]
mod tests;
