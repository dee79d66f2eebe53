//! QEMU's machine protocol (`docs/interop/qmp-spec.rst`): one JSON object per line over a Unix
//! socket.
//!
//! QEMU greets, the client negotiates (`qmp_capabilities`), then each command has one answer, a
//! `return` or an `error`. Events may come at any time; they are skipped.
//!
//! A [`Dialogue`] holds no socket and never blocks: its caller passes in the bytes read and sends
//! the commands, within a time limit of its own. So one thread can query any number of guests.
//!
//! ```
//! use tierwise_linux::qemu::{Dialogue, QmpStep};
//!
//! let mut dialogue = Dialogue::default();
//! assert_eq!(dialogue.step().unwrap(), QmpStep::Read);
//! dialogue.take(b"{\"QMP\": {}}\n").unwrap();
//! let QmpStep::Send(command) = dialogue.step().unwrap() else { panic!() };
//! assert_eq!(command, "{\"execute\":\"qmp_capabilities\"}\n");
//! ```

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::bytes::quoted;

/// Limit of a whole conversation in bytes, events included: QEMU's largest answers (hundreds of
/// CPUs or memory devices) have some hundred kilobytes.
pub const MAX_LEN: usize = 1 << 20;

/// One of a guest's CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Vcpu {
    /// Number of the CPU in the guest.
    pub cpu_index: u32,
    /// QEMU's thread that runs the CPU; performance counters are opened on it.
    pub thread_id: i32,
}

/// A memory device of a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryDevice {
    /// Path of the memory backend in QEMU ("/objects/mem0"), unescaped: quote it for display.
    pub backend: String,
    /// Bytes.
    pub size: u64,
}

/// A guest as its QEMU describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guest {
    /// CPUs, ascending by number.
    pub vcpus: Vec<Vcpu>,
    /// Memory devices; empty if all memory is the machine's own.
    pub memory: Vec<MemoryDevice>,
}

/// A violation of QEMU's documentation by a guest's socket.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QmpError {
    /// A line violates the protocol.
    #[error("found {found}; expected {expected}; is this a QMP socket?")]
    Protocol {
        /// The line, quoted and cut.
        found: String,
        /// The expected content.
        expected: &'static str,
    },
    /// QEMU refused a command.
    #[error("QEMU refused {command}: {reason}")]
    Refused {
        /// The command.
        command: &'static str,
        /// QEMU's reason, quoted and cut.
        reason: String,
    },
}

/// The caller's next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QmpStep {
    /// Read more, and pass it to [`Dialogue::take`].
    Read,
    /// Send this.
    Send(String),
    /// Stop: the description is complete.
    Done(Guest),
}

/// The commands, in order.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    #[default]
    Greeting,
    Capabilities,
    Processors,
    Memory,
}

impl Awaited {
    fn command(self) -> &'static str {
        match self {
            Self::Greeting => "nothing",
            Self::Capabilities => "qmp_capabilities",
            Self::Processors => "query-cpus-fast",
            Self::Memory => "query-memory-devices",
        }
    }

    /// Returns the command.
    fn ask(self) -> QmpStep {
        QmpStep::Send(format!("{{\"execute\":\"{}\"}}\n", self.command()))
    }
}

/// A conversation with one guest's QEMU about the guest's CPUs and memory.
#[derive(Debug, Default)]
pub struct Dialogue {
    /// Everything received. It is bounded, so nothing is removed.
    bytes: Vec<u8>,
    /// Start of the next line.
    line: usize,
    /// Position up to which no end of a line was found.
    searched: usize,
    awaited: Awaited,
    vcpus: Vec<Vcpu>,
}

/// A line from QEMU.
#[derive(Deserialize)]
struct Line<T> {
    #[serde(rename = "QMP")]
    greeting: Option<IgnoredAny>,
    event: Option<IgnoredAny>,
    error: Option<Refusal>,
    #[serde(rename = "return")]
    answer: Option<T>,
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(default)]
    desc: String,
}

#[derive(Deserialize)]
struct MemoryDeviceInfo {
    data: Option<DeviceData>,
}

#[derive(Deserialize)]
struct DeviceData {
    memdev: Option<String>,
    size: Option<u64>,
}

impl Dialogue {
    /// Takes the bytes read; an empty slice is the end of the connection.
    ///
    /// # Errors
    /// The connection ended, or sent more than [`MAX_LEN`] bytes.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), QmpError> {
        let found = match bytes.len() {
            0 => "the end of the connection".to_owned(),
            more if self.bytes.len() + more > MAX_LEN => format!("more than {MAX_LEN} bytes"),
            _ => {
                self.bytes.extend_from_slice(bytes);
                return Ok(());
            }
        };
        Err(QmpError::Protocol { found, expected: "QEMU's answer" })
    }

    /// Returns the caller's next step.
    ///
    /// # Errors
    /// QEMU refused a command, or the other end is no QEMU.
    pub fn step(&mut self) -> Result<QmpStep, QmpError> {
        while let Some(length) = self.bytes[self.searched..].iter().position(|b| *b == b'\n') {
            let (start, end) = (self.line, self.searched + length);
            self.line = end + 1;
            self.searched = self.line;
            if let Some(step) = self.heard(start, end)? {
                return Ok(step);
            }
        }
        self.searched = self.bytes.len();
        Ok(QmpStep::Read)
    }

    /// Handles a line; `None` for an event.
    fn heard(&mut self, start: usize, end: usize) -> Result<Option<QmpStep>, QmpError> {
        let line = &self.bytes[start..end];
        let next = match self.awaited {
            Awaited::Greeting => greeting(line)?.then_some(Awaited::Capabilities),
            Awaited::Capabilities => {
                let answer = answer::<IgnoredAny>(line, self.awaited, "an empty return")?;
                answer.map(|_| Awaited::Processors)
            }
            Awaited::Processors => {
                let expected = "a list of CPUs with cpu-index and thread-id";
                let answer = answer::<Vec<Vcpu>>(line, self.awaited, expected)?;
                answer.map(|vcpus| {
                    self.vcpus = vcpus;
                    Awaited::Memory
                })
            }
            Awaited::Memory => {
                let Some(devices) = answer(line, self.awaited, MEMORY)? else { return Ok(None) };
                let memory = memory(devices).ok_or_else(|| unexpected(line, MEMORY))?;
                let mut vcpus = std::mem::take(&mut self.vcpus);
                vcpus.sort_by_key(|vcpu| vcpu.cpu_index);
                return Ok(Some(QmpStep::Done(Guest { vcpus, memory })));
            }
        };
        Ok(next.map(|next| {
            self.awaited = next;
            next.ask()
        }))
    }
}

const MEMORY: &str = "a list of memory devices with memdev and size";

/// True if a line is QEMU's greeting; otherwise it is an event.
fn greeting(line: &[u8]) -> Result<bool, QmpError> {
    let expected = "QEMU's greeting";
    let line_of: Line<IgnoredAny> =
        serde_json::from_slice(line).map_err(|_| unexpected(line, expected))?;
    match (line_of.greeting, line_of.event) {
        (Some(_), _) => Ok(true),
        (None, Some(_)) => Ok(false),
        (None, None) => Err(unexpected(line, expected)),
    }
}

/// Returns a line's answer; `None` for an event.
fn answer<T: DeserializeOwned>(
    line: &[u8],
    awaited: Awaited,
    expected: &'static str,
) -> Result<Option<T>, QmpError> {
    let parsed: Line<T> = serde_json::from_slice(line).map_err(|_| unexpected(line, expected))?;
    if let Some(refusal) = parsed.error {
        let reason = quoted(refusal.desc);
        return Err(QmpError::Refused { command: awaited.command(), reason });
    }
    if parsed.answer.is_none() && parsed.event.is_none() {
        return Err(unexpected(line, expected));
    }
    Ok(parsed.answer)
}

/// Returns the devices that have memory of their own: an SGX enclave's page cache, for example, has
/// no backend.
fn memory(devices: Vec<MemoryDeviceInfo>) -> Option<Vec<MemoryDevice>> {
    let data = devices.into_iter().filter_map(|device| device.data);
    let with_backend = data.filter_map(|data| Some((data.memdev?, data.size)));
    with_backend.map(|(backend, size)| Some(MemoryDevice { backend, size: size? })).collect()
}

fn unexpected(line: &[u8], expected: &'static str) -> QmpError {
    QmpError::Protocol { found: quoted(line.trim_ascii_end()), expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GREETING: &str = "{\"QMP\": {\"version\": {}, \"capabilities\": []}}\n";

    /// Returns the result after these lines, and the commands sent.
    fn talk(lines: &[&str]) -> (Result<QmpStep, QmpError>, Vec<String>) {
        let (mut dialogue, mut sent) = (Dialogue::default(), Vec::new());
        for line in lines {
            if let Err(e) = dialogue.take(line.as_bytes()) {
                return (Err(e), sent);
            }
            loop {
                match dialogue.step() {
                    Ok(QmpStep::Read) => break,
                    Ok(QmpStep::Send(command)) => sent.push(command),
                    other => return (other, sent),
                }
            }
        }
        (Ok(QmpStep::Read), sent)
    }

    fn message(lines: &[&str]) -> String {
        talk(lines).0.unwrap_err().to_string()
    }

    #[test]
    fn guest_threads_and_memory_follow_qmp() {
        let (outcome, sent) = talk(&[
            GREETING,
            "{\"return\": {}}\r\n",
            "{\"event\": \"RESUME\", \"timestamp\": {}}\n\
             {\"return\": [{\"cpu-index\": 1, \"thread-id\": 4712, \
             \"target\": \"x86_64\"}, {\"cpu-index\": 0, \"thread-id\": 4711, \"qom-path\": \"/m",
            "achine\"}]}\n",
            "{\"return\": [{\"type\": \"dimm\", \
             \"data\": {\"memdev\": \"/objects/mem1\", \"size\": 1073741824, \"addr\": 0}}, \
             {\"type\": \"sgx-epc\", \"data\": {\"size\": 1}}]}\n",
        ]);
        let Ok(QmpStep::Done(guest)) = outcome else { panic!("{outcome:?}") };
        let threads: Vec<_> = guest.vcpus.iter().map(|v| (v.cpu_index, v.thread_id)).collect();
        assert_eq!(threads, [(0, 4711), (1, 4712)]);
        assert_eq!(guest.memory, [MemoryDevice { backend: "/objects/mem1".into(), size: 1 << 30 }]);
        let asked = ["qmp_capabilities", "query-cpus-fast", "query-memory-devices"];
        assert_eq!(sent.len(), asked.len());
        assert!(sent.iter().zip(asked).all(|(line, name)| line.contains(name)), "{sent:?}");
    }

    #[test]
    fn other_programs_are_not_taken_for_qemu() {
        assert_eq!(
            message(&["HTTP/1.1 400 Bad Request\r\n"]),
            "found \"HTTP/1.1 400 Bad Request\"; expected QEMU's greeting; is this a QMP socket?"
        );
        assert!(
            message(&[GREETING, "{\"return\": {}}\n", ""]).contains("the end of the connection")
        );
        assert!(message(&[GREETING, "{}\n"]).contains("found \"{}\"; expected an empty return"));
    }

    #[test]
    fn undocumented_qmp_answers_are_errors() {
        let refused =
            "{\"error\": {\"class\": \"CommandNotFound\", \"desc\": \"no such command\"}}\n";
        assert_eq!(
            message(&[GREETING, "{\"return\": {}}\n", refused]),
            "QEMU refused query-cpus-fast: \"no such command\""
        );
        let shape = "{\"return\": [{\"cpu-index\": \"zero\"}]}\n";
        let message = message(&[GREETING, "{\"return\": {}}\n", shape]);
        assert!(message.contains("expected a list of CPUs with cpu-index and"), "{message}");
    }

    #[test]
    fn text_from_qemu_is_escaped_and_cut() {
        let desc = format!("\\u001b[2J{}", "x".repeat(500_000));
        let refused = format!("{{\"error\": {{\"desc\": \"{desc}\"}}}}\n");
        for line in [refused.as_str(), &refused[1..]] {
            let message = message(&[GREETING, line]);
            assert!(
                message.len() < 300 && !message.contains('\x1b'),
                "{} {message:.100}",
                message.len()
            );
        }
    }

    #[test]
    fn events_without_end_are_cut_off() {
        let mut dialogue = Dialogue::default();
        dialogue.take(GREETING.as_bytes()).unwrap();
        assert!(matches!(dialogue.step(), Ok(QmpStep::Send(_))));
        let mut taken = GREETING.len();
        let message = loop {
            let event = b"{\"event\": \"RTC_CHANGE\"}\n";
            match dialogue.take(event) {
                Ok(()) => taken += event.len(),
                Err(e) => break e.to_string(),
            }
            assert_eq!(dialogue.step(), Ok(QmpStep::Read));
        };
        assert!(taken <= MAX_LEN && message.contains("found more than 1048576 bytes"), "{message}");
    }
}
