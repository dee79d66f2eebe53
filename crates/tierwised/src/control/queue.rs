//! A scheduler's messages from a POSIX message queue (`control.queue`), as commands: `add NAME PID`
//! before a virtual machine takes part, `remove NAME` before it is shut down (Memstrata, section
//! 5). A queue carries no answers: refusals go to the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use tierwise_linux::error::Result;
use tierwise_linux::mqueue::{Queue, SchedulerMessage};

use super::protocol::ControlCommand;
use super::server::{ControlRequest, ask};
use crate::config::TenantConfig;
use crate::system::optional::Feature;

/// Max time until a daemon that ends has removed its queue.
const PATIENCE: Duration = Duration::from_millis(500);

/// The thread that reads the queue. The queue is removed when this is dropped.
pub struct Listener {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    failures: Receiver<String>,
}

impl Feature for Listener {
    fn failures(&self) -> Receiver<String> {
        self.failures.clone()
    }
}

/// The part of a queue that the thread uses.
trait Inbox {
    fn wait(&mut self, patience: Duration);

    fn receive(&mut self) -> Result<Option<std::result::Result<SchedulerMessage, String>>>;
}

impl Inbox for Queue {
    fn wait(&mut self, patience: Duration) {
        Self::wait(self, patience);
    }

    fn receive(&mut self) -> Result<Option<std::result::Result<SchedulerMessage, String>>> {
        Self::receive(self)
    }
}

impl Listener {
    /// Reads from the queue of this name.
    ///
    /// # Errors
    /// Another daemon reads it, or the name cannot be used.
    pub fn start(
        name: &str,
        requests: Sender<ControlRequest>,
        wake: Sender<()>,
    ) -> anyhow::Result<Self> {
        let queue = Queue::open(name)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let (broken, failures) = bounded(1);
        let read = move || {
            if let Err(e) = read_on(queue, &stopped, &requests, &wake) {
                // Without a receiver the daemon is ending.
                let _ = broken.send(e.to_string());
            }
        };
        let thread = thread::Builder::new().name("queue".into()).spawn(read)?;
        Ok(Self { stop, thread: Some(thread), failures })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has dropped its queue as well.
            let _ = thread.join();
        }
    }
}

/// Reads until `stop` is set.
///
/// # Errors
/// The kernel refuses to deliver messages.
fn read_on(
    mut queue: impl Inbox,
    stop: &AtomicBool,
    requests: &Sender<ControlRequest>,
    wake: &Sender<()>,
) -> Result<()> {
    while !stop.load(Ordering::Relaxed) {
        queue.wait(PATIENCE);
        let problem = match queue.receive()? {
            None => continue,
            Some(Ok(message)) => {
                let reply = ask(command(message), requests, wake);
                reply.error.filter(|_| !reply.ok)
            }
            Some(Err(problem)) => Some(problem),
        };
        if let Some(problem) = problem {
            tracing::warn!("message queue: {problem}");
        }
    }
    Ok(())
}

fn command(message: SchedulerMessage) -> ControlCommand {
    match message {
        SchedulerMessage::Add { name, pid } => {
            ControlCommand::TenantAdd { tenant: TenantConfig::of_processes(&name, vec![pid]) }
        }
        SchedulerMessage::Remove { name } => ControlCommand::TenantRemove { name },
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::unbounded;
    use tierwise_linux::error::LinuxError;

    use super::super::protocol::Reply;
    use super::*;

    fn send(queue: &str, text: &str) {
        let name = std::ffi::CString::new(queue).unwrap();
        // SAFETY: the name ends in a zero byte; the kernel reads the text's bytes.
        #[allow(unsafe_code)]
        unsafe {
            let to = libc::mq_open(name.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
            assert!(to >= 0);
            assert_eq!(libc::mq_send(to, text.as_ptr().cast(), text.len(), 0), 0);
            libc::mq_close(to);
        }
    }

    struct Broken(u32);

    impl Inbox for Broken {
        fn wait(&mut self, _: Duration) {}

        fn receive(&mut self) -> Result<Option<std::result::Result<SchedulerMessage, String>>> {
            self.0 += 1;
            match self.0 {
                1 => Ok(Some(Err("found \"begin\"".to_owned()))),
                _ => Err(LinuxError::file(
                    std::path::Path::new("/dev/mqueue/tierwise"),
                    "receive",
                    std::io::Error::from_raw_os_error(libc::EBADF),
                )),
            }
        }
    }

    #[test]
    fn broken_queue_ends_with_its_reason() {
        let stop = AtomicBool::new(false);
        let error = read_on(Broken(0), &stop, &unbounded().0, &bounded(1).0).unwrap_err();
        assert!(error.to_string().contains("/dev/mqueue/tierwise"), "{error}");
    }

    #[test]
    fn scheduler_messages_change_tenants_harmlessly() {
        let name = format!("/tierwised-test-{}", std::process::id());
        let (sender, requests) = unbounded::<ControlRequest>();
        let listener = Listener::start(&name, sender.clone(), bounded(1).0).unwrap();
        assert!(Listener::start(&name, sender, bounded(1).0).is_err());
        ["add vm-1 4711", "begin vm-2", "add vm-1 4711", "remove vm-1"]
            .iter()
            .for_each(|text| send(&name, text));
        let received =
            [Reply::done(), Reply::refused("it stands twice"), Reply::done()].map(|reply| {
                let request = requests.recv_timeout(Duration::from_secs(60)).unwrap();
                request.reply.send(reply).unwrap();
                request.command
            });
        let add =
            || ControlCommand::TenantAdd { tenant: TenantConfig::of_processes("vm-1", vec![4711]) };
        assert_eq!(received, [add(), add(), ControlCommand::TenantRemove { name: "vm-1".into() }]);
        drop(listener);
        // Its name is free again.
        drop(Queue::open(&name).unwrap());
    }
}
