//! What a guest consists of on the host: the threads of its processors, and its memory devices.

use serde::Deserialize;
use serde_json::Value;

use super::qmp::{Qmp, QmpError};

/// One of a guest's processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Vcpu {
    /// Its number in the guest.
    pub cpu_index: u32,
    /// The thread of QEMU that runs it: what performance counters are opened on.
    pub thread_id: i32,
}

/// A memory device of a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryDevice {
    /// The memory backend's path in QEMU ("/objects/mem0").
    pub backend: String,
    /// Bytes.
    pub size: u64,
}

/// A guest as its QEMU describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guest {
    /// Its processors, in the order of their numbers.
    pub vcpus: Vec<Vcpu>,
    /// Its memory devices; empty if all its memory is the machine's own.
    pub memory: Vec<MemoryDevice>,
}

impl Guest {
    /// Asks QEMU: `query-cpus-fast` and `query-memory-devices`.
    ///
    /// # Errors
    /// QEMU refused, has gone away, or says something else than it documents.
    pub fn ask(qmp: &mut Qmp) -> Result<Self, QmpError> {
        let cpus = qmp.execute("query-cpus-fast")?;
        let mut vcpus: Vec<Vcpu> = Vec::<Vcpu>::deserialize(&cpus).map_err(|_| {
            qmp.unexpected(&cpus, "a list of processors with cpu-index and thread-id")
        })?;
        vcpus.sort_by_key(|vcpu| vcpu.cpu_index);
        let devices = qmp.execute("query-memory-devices")?;
        let expected = "a list of memory devices with memdev and size";
        let list = devices.as_array().ok_or_else(|| qmp.unexpected(&devices, expected))?;
        // Devices without memory of their own (an SGX enclave's page cache, say) have no backend.
        let with_backend = list
            .iter()
            .filter_map(|device| device.get("data"))
            .filter(|data| data.get("memdev").is_some());
        let memory = with_backend
            .map(|data| {
                let backend = data.get("memdev").and_then(Value::as_str)?.to_owned();
                Some(MemoryDevice { backend, size: data.get("size").and_then(Value::as_u64)? })
            })
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| qmp.unexpected(&devices, expected))?;
        Ok(Self { vcpus, memory })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;
    use std::thread::JoinHandle;

    use super::*;

    /// A QEMU that greets with the first line and answers each command with the lines of the next entry.
    struct FakeQemu {
        _folder: tempfile::TempDir,
        path: PathBuf,
        thread: JoinHandle<Vec<String>>,
    }

    fn fake(greeting: &'static str, answers: &'static [&'static str]) -> FakeQemu {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("qmp.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let thread = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut out = stream.try_clone().unwrap();
            writeln!(out, "{greeting}").unwrap();
            let mut commands = BufReader::new(stream).lines();
            let answer = |answer: &&str| {
                let command = commands.next()?.ok()?;
                writeln!(out, "{answer}").ok()?;
                Some(command)
            };
            answers.iter().map_while(answer).collect()
        });
        FakeQemu { _folder: folder, path, thread }
    }

    const GREETING: &str = r#"{"QMP": {"version": {}, "capabilities": []}}"#;

    #[test]
    fn a_guests_threads_and_memory_are_what_qemu_says() {
        let qemu = fake(
            GREETING,
            &[
                r#"{"return": {}}"#,
                "{\"event\": \"RESUME\", \"timestamp\": {}}\n{\"return\": [{\"cpu-index\": 1, \"thread-id\": 4712, \
                 \"target\": \"x86_64\"}, {\"cpu-index\": 0, \"thread-id\": 4711, \"qom-path\": \"/machine\"}]}",
                r#"{"return": [{"type": "dimm", "data": {"memdev": "/objects/mem1", "size": 1073741824, "addr": 0}}, {"type": "sgx-epc", "data": {"size": 1}}]}"#,
            ],
        );
        let mut qmp = Qmp::connect(&qemu.path).unwrap();
        let guest = Guest::ask(&mut qmp).unwrap();
        let threads: Vec<(u32, i32)> =
            guest.vcpus.iter().map(|v| (v.cpu_index, v.thread_id)).collect();
        assert_eq!(threads, [(0, 4711), (1, 4712)]);
        assert_eq!(guest.memory, [MemoryDevice { backend: "/objects/mem1".into(), size: 1 << 30 }]);
        drop(qmp);
        let commands = qemu.thread.join().unwrap();
        let asked = ["qmp_capabilities", "query-cpus-fast", "query-memory-devices"];
        assert!(commands.iter().zip(asked).all(|(line, name)| line.contains(name)), "{commands:?}");
    }

    #[test]
    fn what_is_no_qemu_is_told_apart() {
        let missing = Qmp::connect(std::path::Path::new("/nonexistent/qmp.sock")).unwrap_err();
        assert!(
            missing.to_string().starts_with("/nonexistent/qmp.sock: cannot connect: No such file")
        );
        let other = fake("HTTP/1.1 400 Bad Request", &[]);
        let error = Qmp::connect(&other.path).unwrap_err().to_string();
        assert!(
            error.contains("found \"HTTP/1.1 400 Bad Request\"; expected a JSON object"),
            "{error}"
        );
    }

    #[test]
    fn refusals_and_a_guest_that_ends_are_errors_with_qemus_words() {
        let answers: &[&str] = &[
            r#"{"return": {}}"#,
            r#"{"error": {"class": "CommandNotFound", "desc": "no such command"}}"#,
        ];
        let qemu = fake(GREETING, answers);
        let mut qmp = Qmp::connect(&qemu.path).unwrap();
        let error = Guest::ask(&mut qmp).unwrap_err().to_string();
        assert!(error.ends_with("QEMU refused query-cpus-fast: no such command"), "{error}");
        let error = Guest::ask(&mut qmp).unwrap_err().to_string();
        assert!(error.contains("end of the connection") || error.contains("cannot"), "{error}");
    }

    #[test]
    fn answers_that_qemu_does_not_document_are_refused() {
        let qemu = fake(GREETING, &[r#"{"return": {}}"#, r#"{"return": [{"cpu-index": "zero"}]}"#]);
        let mut qmp = Qmp::connect(&qemu.path).unwrap();
        let error = Guest::ask(&mut qmp).unwrap_err().to_string();
        assert!(
            error.contains("expected a list of processors with cpu-index and thread-id"),
            "{error}"
        );
    }
}
