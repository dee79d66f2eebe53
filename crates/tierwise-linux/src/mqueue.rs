//! A POSIX message queue through which a scheduler announces tenants that start and end, like
//! Memstrata's (Zhong et al., OSDI 2024, section 5).
//!
//! A message is a line of text: `add NAME PID` before a virtual machine takes part, `remove NAME`
//! before it shuts down.
//!
//! ```
//! use tierwise_linux::mqueue::SchedulerMessage;
//!
//! assert_eq!(
//!     SchedulerMessage::parse("add web-1 4711").unwrap(),
//!     SchedulerMessage::Add { name: "web-1".into(), pid: 4711 }
//! );
//! assert_eq!(
//!     SchedulerMessage::parse("start web-1").unwrap_err(),
//!     "found \"start web-1\"; allowed: \"add NAME PID\" or \"remove NAME\""
//! );
//! ```

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock, fstat};
use rustix::process::geteuid;

use crate::bytes::quoted;
use crate::error::{LinuxError, Result};

/// Limit of a message in bytes: enough for a name, a number and a word.
const MAX_LEN: usize = 512;

/// Limit of waiting messages: the most that an ordinary user may request (`fs.mqueue.msg_max`).
const MAX_WAITING: i64 = 10;

/// A scheduler's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchedulerMessage {
    /// A tenant starts.
    Add {
        /// Name of the tenant.
        name: String,
        /// Pid of a virtual machine's QEMU.
        pid: i32,
    },
    /// A tenant is about to end.
    Remove {
        /// Name of the tenant.
        name: String,
    },
}

impl SchedulerMessage {
    /// Parses a message.
    ///
    /// # Errors
    /// The text is no message.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["add", name, pid] => match pid.parse::<i32>() {
                Ok(pid) if pid > 0 => Ok(Self::Add { name: name.to_owned(), pid }),
                _ => {
                    let (pid, name) = (quoted(pid), quoted(name));
                    Err(format!("found process {pid} of {name}; allowed: a number above 0"))
                }
            },
            ["remove", name] => Ok(Self::Remove { name: name.to_owned() }),
            _ => {
                let found = quoted(text);
                Err(format!("found {found}; allowed: \"add NAME PID\" or \"remove NAME\""))
            }
        }
    }
}

/// True if the kernel accepts this as the name of a queue: one slash, at the start.
///
/// ```
/// use tierwise_linux::mqueue::is_name;
///
/// assert!(is_name("/tierwise") && !is_name("tierwise"));
/// ```
pub fn is_name(name: &str) -> bool {
    let rest = name.strip_prefix('/').unwrap_or_default();
    !matches!(rest, "" | "." | "..") && !rest.contains(['/', '\0'])
}

/// The reading end of a queue. Opening creates the queue; dropping removes it.
#[derive(Debug)]
pub struct Queue {
    name: CString,
    descriptor: OwnedFd,
}

impl Queue {
    /// Opens a queue of this name ("/tierwise"), to which only this user may write. It takes over
    /// the queue of a killed reader, with its waiting messages.
    ///
    /// # Errors
    /// The name is invalid ([`is_name`]), another user reads the queue or may write to it, or the
    /// kernel refuses.
    pub fn open(name: &str) -> Result<Self> {
        let made = CString::new(name).ok().filter(|_| is_name(name));
        let Some(c_name) = made else {
            return Err(LinuxError::Missing {
                what: format!("found the message queue name {name:?}"),
                remedy: "start it with a slash and have no other, as in \"/tierwise\"".to_owned(),
            });
        };
        let failed = |what, error| LinuxError::file(&path(&c_name), what, error);
        let descriptor = open(&c_name).map_err(|e| failed("open the message queue", e))?;
        let found = fstat(&descriptor).map_err(|e| failed("examine", e.into()))?;
        let private = found.st_uid == geteuid().as_raw() && found.st_mode & 0o077 == 0;
        if !private || longest(&descriptor) != Some(MAX_LEN as i64) {
            return Err(LinuxError::Missing {
                what: format!("the message queue {name:?} belongs to another user"),
                remedy: format!("remove {}, or use another name", path(&c_name).display()),
            });
        }
        // A second reader would take messages from the first.
        flock(&descriptor, FlockOperation::NonBlockingLockExclusive)
            .map_err(|e| failed("be the only reader of the message queue", e.into()))?;
        Ok(Self { name: c_name, descriptor })
    }

    /// Waits for a message until the timeout.
    pub fn wait(&self, patience: Duration) {
        let mut poll =
            libc::pollfd { fd: self.descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let patience = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
        // The next `receive` reports every result.
        // SAFETY: the argument is one structure, which the kernel writes to before the call
        // returns.
        #[allow(unsafe_code)]
        unsafe {
            libc::poll(std::ptr::from_mut(&mut poll), 1, patience);
        }
    }

    /// Returns the next message, if one waits. An invalid message becomes a description of its
    /// error.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn receive(&mut self) -> Result<Option<std::result::Result<SchedulerMessage, String>>> {
        let mut bytes = [0u8; MAX_LEN];
        // SAFETY: the kernel writes at most as many bytes as the buffer has, and no priority.
        #[allow(unsafe_code)]
        let length = unsafe {
            libc::mq_receive(
                self.descriptor.as_raw_fd(),
                bytes.as_mut_ptr().cast(),
                bytes.len(),
                std::ptr::null_mut(),
            )
        };
        if let Ok(length) = usize::try_from(length) {
            let text = String::from_utf8_lossy(&bytes[..length]);
            return Ok(Some(SchedulerMessage::parse(text.trim_end_matches('\0'))));
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
            _ => Err(LinuxError::file(&path(&self.name), "receive", error)),
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: the name ends in a zero byte.
        #[allow(unsafe_code)]
        unsafe {
            libc::mq_unlink(self.name.as_ptr());
        }
    }
}

/// Path of a queue, if its file system is mounted at the usual place.
fn path(name: &CStr) -> PathBuf {
    PathBuf::from(format!("/dev/mqueue{}", name.to_string_lossy()))
}

fn open(name: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::O_CREAT | libc::O_RDONLY | libc::O_NONBLOCK | libc::O_CLOEXEC;
    // SAFETY: the name ends in a zero byte, and all zeros are a valid attribute structure, of which
    // the kernel reads the two fields that are set. On Linux a queue's descriptor is a file
    // descriptor, and only this process owns it.
    #[allow(unsafe_code)]
    unsafe {
        let mut attributes: libc::mq_attr = std::mem::zeroed();
        attributes.mq_maxmsg = MAX_WAITING;
        attributes.mq_msgsize = MAX_LEN as i64;
        let mode: libc::mode_t = 0o600;
        match libc::mq_open(name.as_ptr(), flags, mode, std::ptr::from_mut(&mut attributes)) {
            -1 => Err(io::Error::last_os_error()),
            descriptor => Ok(OwnedFd::from_raw_fd(descriptor)),
        }
    }
}

/// Returns the maximum length of a queue's messages, if the descriptor is a queue.
fn longest(queue: &OwnedFd) -> Option<i64> {
    // SAFETY: all zeros are a valid attribute structure, which the kernel writes to before the call
    // returns.
    #[allow(unsafe_code)]
    unsafe {
        let mut attributes: libc::mq_attr = std::mem::zeroed();
        let got = libc::mq_getattr(queue.as_raw_fd(), std::ptr::from_mut(&mut attributes));
        (got == 0).then_some(attributes.mq_msgsize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(queue: &Queue, text: &str) {
        // SAFETY: the name ends in a zero byte; the kernel reads the text's bytes.
        #[allow(unsafe_code)]
        unsafe {
            let to = libc::mq_open(queue.name.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
            assert!(to >= 0);
            assert_eq!(libc::mq_send(to, text.as_ptr().cast(), text.len(), 0), 0);
            libc::mq_close(to);
        }
    }

    #[test]
    fn messages_keep_order_and_bad_ones_pass() {
        let name = format!("/tierwise-test-{}", std::process::id());
        let mut queue = Queue::open(&name).unwrap();
        assert_eq!(queue.receive().unwrap(), None);
        for text in ["add vm-1 4711\n", "add vm-2 -3", "", "remove vm-1\0"] {
            send(&queue, text);
        }
        let mut next = || queue.receive().unwrap().unwrap();
        assert_eq!(next(), Ok(SchedulerMessage::Add { name: "vm-1".into(), pid: 4711 }));
        assert_eq!(
            next(),
            Err("found process \"-3\" of \"vm-2\"; allowed: a number above 0".into())
        );
        assert!(next().unwrap_err().starts_with("found \"\"; allowed: \"add NAME PID\""));
        assert_eq!(next(), Ok(SchedulerMessage::Remove { name: "vm-1".into() }));
        assert_eq!(queue.receive().unwrap(), None);
        drop(queue);
        drop(Queue::open(&name).unwrap());
    }

    #[test]
    fn scheduler_text_is_escaped_and_cut() {
        for text in ["\x1b[2J".repeat(100), format!("add {} \x1b[2J", "\x1b".repeat(400))] {
            let message = SchedulerMessage::parse(&text).unwrap_err();
            assert!(message.len() < 1200 && !message.contains('\x1b'), "{message}");
        }
    }

    #[test]
    fn second_reader_is_refused_dead_one_replaced() {
        let name = format!("/tierwise-second-{}", std::process::id());
        let first = Queue::open(&name).unwrap();
        let error = Queue::open(&name).unwrap_err().to_string();
        assert!(error.contains("cannot be the only reader of the message queue"), "{error}");
        send(&first, "remove vm-1");
        // Killed: its lock is released, and its name stays.
        let killed = first.descriptor.try_clone().unwrap();
        std::mem::forget(first);
        flock(&killed, FlockOperation::Unlock).unwrap();
        let mut second = Queue::open(&name).unwrap();
        second.wait(Duration::from_secs(60));
        assert_eq!(
            second.receive().unwrap(),
            Some(Ok(SchedulerMessage::Remove { name: "vm-1".into() }))
        );
    }

    #[test]
    fn world_writable_queue_is_refused() {
        let name = format!("/tierwise-open-{}", std::process::id());
        let queue = Queue::open(&name).unwrap();
        rustix::fs::fchmod(&queue.descriptor, rustix::fs::Mode::from_raw_mode(0o622)).unwrap();
        let error = Queue::open(&name).unwrap_err().to_string();
        assert!(
            error.contains("belongs to another user; remove /dev/mqueue/tierwise-open"),
            "{error}"
        );
    }

    #[test]
    fn invalid_queue_names_are_refused() {
        for name in ["", "/", "/.", "/..", "tierwise", "/a/b", "/a\0b"] {
            let error = Queue::open(name).unwrap_err().to_string();
            assert!(
                error.ends_with("start it with a slash and have no other, as in \"/tierwise\""),
                "{error}"
            );
        }
    }
}
