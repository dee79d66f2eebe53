//! Signals: TERM and INT end the daemon, HUP makes it read its configuration again. XFSZ does
//! nothing: a write beyond a limit of file sizes fails, as on a full disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crossbeam_channel::{Sender, bounded};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::control::{ControlCommand, ControlRequest};

/// Starts the thread that waits for signals.
///
/// # Errors
/// The handlers cannot be set.
pub fn start(
    requests: Sender<ControlRequest>,
    wake: Sender<()>,
    stop: Arc<AtomicBool>,
) -> anyhow::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::default())?;
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            if signal == SIGHUP {
                reload(&requests, &wake);
            } else {
                tracing::info!("stopped by a signal");
                stop.store(true, Ordering::Relaxed);
            }
            let _ = wake.try_send(());
        }
    })?;
    Ok(())
}

/// Reloads the configuration. A refused one leaves the old one in force.
fn reload(requests: &Sender<ControlRequest>, wake: &Sender<()>) {
    let (reply, answered) = bounded(1);
    if requests.send(ControlRequest { command: ControlCommand::Reload, reply }).is_err() {
        return;
    }
    let _ = wake.try_send(());
    match answered.recv() {
        Ok(reply) if reply.ok && reply.changed.is_empty() => {
            tracing::info!("reloaded: nothing differs")
        }
        Ok(reply) if reply.ok => tracing::info!("reloaded"),
        Ok(reply) => tracing::error!("not reloaded: {}", reply.error.unwrap_or_default()),
        Err(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::unbounded;

    use super::*;

    #[test]
    fn limit_of_file_size_ends_no_daemon() {
        let ((requests, _), (wake, _)) = (unbounded(), bounded(1));
        let stop = Arc::new(AtomicBool::new(false));
        start(requests, wake, Arc::clone(&stop)).unwrap();
        signal_hook::low_level::raise(SIGXFSZ).unwrap();
        assert!(!stop.load(Ordering::Relaxed));
    }
}
