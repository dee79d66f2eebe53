//! Describes the machine that records, for the trace's header.

use std::path::Path;
use std::process::Command;

/// CPU, kernel, emulator and recorder, in words.
pub(super) fn describe(qemu: &Path) -> String {
    format!(
        "{}; Linux {}; {}; tierwise recorder {}",
        cpu(),
        kernel(),
        emulator(qemu),
        env!("CARGO_PKG_VERSION")
    )
}

fn cpu() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}

fn kernel() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease");
    release.map_or_else(|_| "of unknown release".into(), |text| text.trim().to_owned())
}

/// The first line of `qemu --version`, as in "qemu-x86_64 version 7.2.22 (Debian ...)".
fn emulator(qemu: &Path) -> String {
    let output = Command::new(qemu).arg("--version").output();
    let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or("an unknown QEMU").to_owned()
}
