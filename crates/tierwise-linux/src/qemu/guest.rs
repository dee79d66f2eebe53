//! What a guest consists of on the host: the threads of its CPUs, and its memory devices.

use serde::Deserialize;

/// One of a guest's CPUs.
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
    /// The memory backend's path in QEMU ("/objects/mem0"): QEMU's words, to be quoted where they
    /// are shown.
    pub backend: String,
    /// Bytes.
    pub size: u64,
}

/// A guest as its QEMU describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guest {
    /// Its CPUs, in the order of their numbers.
    pub vcpus: Vec<Vcpu>,
    /// Its memory devices; empty if all its memory is the machine's own.
    pub memory: Vec<MemoryDevice>,
}
