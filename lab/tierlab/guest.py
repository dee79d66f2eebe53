"""A guest: one boot of one kernel on one machine, which runs one job and switches itself off."""

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .errors import LabError
from .job import Job, unpack_results
from .mode import Mode
from .network import Network
from .paths import Paths
from .topology import Topology

# Space for a job's files in /results; the file is sparse.
RESULTS_BYTES = 256 << 20
# Interval at which the host reads the guest's serial lines. A boot takes two hundred times as long,
# so the delay is negligible.
POLL_S = 0.05
# A boot takes 8 s on an idle machine; a guest that is not up after this time hangs, or its host is
# heavily overloaded.
BOOT_TIMEOUT_S = 300.0
CONSOLE_TAIL_LINES = 40


@dataclass
class Outcome:
    """The outcome of a guest."""

    exit_code: int | None
    """The command's exit code; None if the guest ended or was ended without reporting one."""
    reason: str
    """The reason why there is no exit code; empty if there is one."""
    console: str
    """Everything that the kernel and the command printed."""
    boot_s: float | None
    """Time from the start of QEMU to the guest's first own line, in seconds of the host."""
    wall_s: float
    release: str

    def console_tail(self, lines: int = CONSOLE_TAIL_LINES) -> str:
        """Returns the console's last lines."""
        return "\n".join(self.console.splitlines()[-lines:])


class Lines:
    """A reader of the whole lines of a file to which another process appends."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._offset = 0

    def new(self, rest: bool = False) -> list[str]:
        """Returns the lines that were completed since the last call; with `rest`, also the
        incomplete last line."""
        with open(self.file, "rb") as opened:
            opened.seek(self._offset)
            text = opened.read()
        whole = len(text) if rest else text.rfind(b"\n") + 1
        self._offset += whole
        return text[:whole].decode(errors="replace").replace("\r", "").splitlines()


class Guest:
    """A guest of the lab. `paths` is a finished build. Without `network` it has none."""

    def __init__(
        self,
        paths: Paths,
        kernel: str,
        topology: Topology,
        mode: Mode,
        network: Network | None = None,
    ) -> None:
        self.paths = paths
        self.kernel = kernel
        self.topology = topology
        self.mode = mode
        self.network = network

    def run(
        self,
        job: Job,
        timeout_s: float,
        on_event: Callable[[str], None] = lambda line: None,
        on_console: Callable[[str], None] = lambda line: None,
        results: Path | None = None,
        stop: threading.Event | None = None,
    ) -> Outcome:
        """Boots, runs the job, and returns its outcome; `timeout_s` counts from the end of the
        boot.

        `on_event` gets the lines that the job writes to descriptor 3, `on_console` those of the
        console. Setting `stop` ends the guest.
        """
        with self._directory() as name:
            directory = Path(name)
            self._prepare(directory, job)
            serial = [
                "-serial",
                f"file:{directory / 'console'}",
                "-serial",
                f"file:{directory / 'events'}",
            ]
            for file in ("console", "events", "qemu"):
                (directory / file).touch()
            with open(directory / "qemu", "wb") as printed:
                process = subprocess.Popen(
                    [*self._command(directory), *serial],
                    stdin=subprocess.DEVNULL,
                    stdout=printed,
                    stderr=printed,
                    env={**os.environ, "TMPDIR": str(directory)},
                )
                try:
                    outcome = watch(
                        process,
                        directory,
                        timeout_s,
                        on_event,
                        on_console,
                        stop or threading.Event(),
                    )
                finally:
                    process.kill()
                    process.wait()
            if results is not None:
                unpack_results(directory / "results", results)
            return outcome

    def shell(self) -> int:
        """Boots with this terminal as its console; returns QEMU's exit status."""
        with self._directory() as name:
            directory = Path(name)
            self._prepare(directory, Job("", shell=True))
            serial = ["-chardev", "stdio,id=terminal,signal=off", "-serial", "chardev:terminal"]
            return subprocess.run(
                [*self._command(directory), *serial],
                env={**os.environ, "TMPDIR": str(directory)},
                check=False,
            ).returncode

    def _directory(self) -> tempfile.TemporaryDirectory[str]:
        self.paths.runs.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(
            dir=self.paths.runs, prefix=f"{self.kernel}-{self.topology.name}-"
        )

    def _prepare(self, directory: Path, job: Job) -> None:
        if not self.paths.image.exists():
            raise LabError(f"{self.paths.image} is missing; build the lab first: make lab")
        job.write(self.paths, directory / "job.tar")
        with open(directory / "results", "wb") as disk:
            disk.truncate(RESULTS_BYTES)
        if self.mode.counts:
            with open(directory / "counters", "wb") as counters:
                counters.truncate(counters_bytes(self.topology))

    def _command(self, directory: Path) -> list[str]:
        qemu = self.paths.qemu
        libraries = qemu / "usr/lib/x86_64-linux-gnu"
        kernel = self.paths.kernels / self.kernel
        # An emulated timer stops while the host runs others. Without no_timer_check the kernel
        # takes such a pause during its boot for a broken timer, and panics (check_timer in
        # arch/x86/kernel/apic/io_apic.c).
        append = (
            "console=ttyS0 quiet root=/dev/nvme0n1 rootfstype=ext4 rw init=/first-init panic=-1 "
            "no_timer_check"
        )
        return [
            # QEMU runs with the C library for which it was built, not with this machine's.
            str(libraries / "ld-linux-x86-64.so.2"),
            "--library-path",
            str(libraries),
            str(qemu / "usr/bin/qemu-system-x86_64"),
            *[
                word
                for name in ("qemu", "seabios")
                for word in ("-L", str(qemu / "usr/share" / name))
            ],
            *self.topology.arguments(self.mode.processors),
            *self.mode.arguments(self.paths.plugin, self.topology, directory / "counters"),
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
            # The cloud kernels have NVMe and ext4 built in, so no initramfs is needed. There is
            # only one NVMe disk, because the order of names of two is not defined.
            "-drive",
            f"file={self.paths.image},if=none,format=raw,id=root,snapshot=on",
            "-device",
            "nvme,drive=root,serial=root,bus=pcie.0",
            "-drive",
            f"file={directory / 'job.tar'},if=none,format=raw,id=job,readonly=on",
            "-device",
            "virtio-blk-pci,drive=job,serial=job,bus=pcie.0",
            "-drive",
            f"file={directory / 'results'},if=none,format=raw,id=results",
            "-device",
            "virtio-blk-pci,drive=results,serial=results,bus=pcie.0",
            *(self._counters_device(directory / "counters") if self.mode.counts else []),
            *(self.network.arguments() if self.network else []),
            "-kernel",
            str(kernel / "vmlinuz"),
            "-append",
            append,
        ]

    def _counters_device(self, file: Path) -> list[str]:
        """Returns the arguments that present the plugin's counters as the memory of a device, so
        that the guest reads their current values."""
        size = counters_bytes(self.topology)
        return [
            "-object",
            f"memory-backend-file,id=counters,mem-path={file},size={size},share=on",
            "-device",
            "ivshmem-plain,memdev=counters,bus=pcie.0",
        ]


def counters_bytes(topology: Topology) -> int:
    """Returns the size of the file of counters: a header page and 4 bytes per page, rounded up to a
    power of two for a PCI device."""
    needed = 4096 + 4 * (topology.memory_end() // 4096)
    return 1 << (needed - 1).bit_length()


def watch(
    process: subprocess.Popen[bytes],
    directory: Path,
    timeout_s: float,
    on_event: Callable[[str], None],
    on_console: Callable[[str], None],
    stop: threading.Event,
) -> Outcome:
    """Follows a guest to its end, or ends it when its time is over."""
    began = time.monotonic()
    deadline = began + BOOT_TIMEOUT_S
    events, console = Lines(directory / "events"), Lines(directory / "console")
    outcome = Outcome(None, "", "", None, 0.0, "")
    while True:
        ended = process.poll() is not None
        for line in console.new(rest=ended):
            on_console(line)
        for line in events.new(rest=ended):
            word, _, rest = line.partition(" ")
            if word == "ready":
                outcome.boot_s = time.monotonic() - began
                outcome.release = rest.partition(" ")[2]
                deadline = time.monotonic() + timeout_s
            elif word == "exit":
                outcome.exit_code = int(rest)
            else:
                on_event(line)
        if ended:
            break
        if stop.is_set():
            outcome.reason = "the lab was interrupted"
            break
        if time.monotonic() > deadline:
            limit = (
                f"{BOOT_TIMEOUT_S:.0f} s for its boot"
                if outcome.boot_s is None
                else f"{timeout_s:.0f} s"
            )
            outcome.reason = f"the guest (process {process.pid}) hung and was ended after {limit}"
            break
        time.sleep(POLL_S)
    process.kill()
    process.wait()
    outcome.wall_s = time.monotonic() - began
    outcome.console = (directory / "console").read_text(errors="replace").replace("\r", "")
    if outcome.exit_code is None and not outcome.reason:
        printed = (directory / "qemu").read_text(errors="replace").strip()
        outcome.reason = (
            f"the guest ended (status {process.returncode}) before its job did. "
            f"{panic(outcome.console)}{printed}".strip()
        )
    return outcome


def panic(console: str) -> str:
    """Returns the line with which the kernel of a console panicked, as a sentence; empty if it did
    not."""
    lines = (line for line in console.splitlines() if "Kernel panic" in line)
    return next((f"Its kernel says: {line.strip()} " for line in lines), "")


def remove_stale_runs(paths: Paths) -> None:
    """Removes the directories of guests whose host program was killed: those that no program has
    used for a day."""
    day_ago = time.time() - 86400
    for directory in paths.runs.glob("*") if paths.runs.is_dir() else ():
        if directory.stat().st_mtime < day_ago:
            shutil.rmtree(directory, ignore_errors=True)
