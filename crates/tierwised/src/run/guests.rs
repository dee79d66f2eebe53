//! What a virtual machine that was named by its QMP socket consists of: asked when it begins, on a thread of its own, because a
//! QEMU that hangs must not keep the daemon waiting.

use std::path::PathBuf;
use std::thread;

use crossbeam_channel::{Receiver, Sender, unbounded};
use tierwise_core::units::TenantId;
use tierwise_linux::qemu::{Guest, Qmp, QmpError};

use crate::config::Config;

/// Guests that were asked, and what they answered.
pub(super) struct Guests {
    sender: Sender<String>,
    answers: Receiver<String>,
}

impl Guests {
    pub(super) fn new() -> Self {
        let (sender, answers) = unbounded();
        Self { sender, answers }
    }

    /// Asks those of these tenants that were named by their QMP socket.
    pub(super) fn ask(&self, begun: &[TenantId], config: &Config) {
        for tenant in begun.iter().filter_map(|tenant| config.tenants.get(tenant.index())) {
            let Some(path) = tenant.qmp().map(PathBuf::from) else { continue };
            let (name, sender) = (tenant.name.clone(), self.sender.clone());
            let ask = move || {
                let guest = Qmp::connect(&path).and_then(|mut qmp| Guest::ask(&mut qmp));
                // A daemon that ended meanwhile wants no answer.
                let _ = sender.send(words(&name, &guest));
            };
            if let Err(e) = thread::Builder::new().name("guest".into()).spawn(ask) {
                tracing::warn!("tenant {:?}: its QEMU is not asked: {e}", tenant.name);
            }
        }
    }

    /// What they answered since the last call, in words.
    pub(super) fn answers(&self) -> Vec<String> {
        self.answers.try_iter().collect()
    }
}

/// A guest in a sentence. One that cannot be asked is a tenant all the same: its process was found.
fn words(name: &str, guest: &Result<Guest, QmpError>) -> String {
    let guest = match guest {
        Ok(guest) => guest,
        Err(e) => return format!("tenant {name:?}: what its guest consists of is not known: {e}"),
    };
    let threads: Vec<String> = guest.vcpus.iter().map(|vcpu| vcpu.thread_id.to_string()).collect();
    let device = |device: &tierwise_linux::qemu::MemoryDevice| {
        format!("{} of {} MiB", device.backend, device.size >> 20)
    };
    let memory: Vec<String> = guest.memory.iter().map(device).collect();
    let memory = if memory.is_empty() { "none".to_owned() } else { memory.join(", ") };
    format!(
        "tenant {name:?}: a guest with {} processors (threads {}) and memory devices: {memory}",
        guest.vcpus.len(),
        threads.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixListener;
    use std::time::Duration;

    use super::*;

    /// A QEMU with one processor and one memory device, for one client.
    fn qemu(listener: &UnixListener) {
        let (stream, _) = listener.accept().unwrap();
        let mut out = stream.try_clone().unwrap();
        writeln!(out, r#"{{"QMP": {{}}}}"#).unwrap();
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let answer = if line.contains("query-cpus-fast") {
                r#"[{"cpu-index": 0, "thread-id": 4712}]"#
            } else if line.contains("query-memory-devices") {
                r#"[{"type": "dimm", "data": {"memdev": "/objects/mem1", "size": 1073741824}}]"#
            } else {
                "{}"
            };
            writeln!(out, r#"{{"return": {answer}}}"#).unwrap();
        }
    }

    #[test]
    fn a_guest_that_begins_is_asked_and_one_that_cannot_be_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db.qmp");
        let listener = UnixListener::bind(&path).unwrap();
        let thread = thread::spawn(move || qemu(&listener));
        let gone = folder.path().join("gone.qmp");
        let text = format!(
            "[[tenant]]\nname = \"db\"\nqemu = \"qmp:{}\"\n[[tenant]]\nname = \"gone\"\nqemu = \"qmp:{}\"\n\
             [[tenant]]\nname = \"p\"\npids = [1]\n",
            path.display(),
            gone.display()
        );
        let config = Config::parse("t.toml", &text).unwrap();
        let guests = Guests::new();
        // The third has no QMP socket, and the fourth was removed meanwhile.
        guests.ask(&[0, 1, 2, 3].map(TenantId), &config);
        let mut said: Vec<String> =
            (0..2).map(|_| guests.answers.recv_timeout(Duration::from_secs(60)).unwrap()).collect();
        said.sort();
        let expected = "tenant \"db\": a guest with 1 processors (threads 4712) and memory devices: /objects/mem1 of 1024 MiB";
        assert_eq!(said[0], expected);
        assert!(said[1].starts_with("tenant \"gone\": what its guest consists of is not known"));
        assert!(guests.answers().is_empty());
        thread.join().unwrap();
    }
}
