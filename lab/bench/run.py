"""One run: a new program with the same initial placement, under one policy, measured from the same
point on."""

import contextlib
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tierguest import Guest
from tierguest.cgroup import Cgroup
from tierguest.damon import DAMON_STAT
from tierguest.files import read, write
from tierguest.program import Program as Process
from tierguest.wait import wait_until

from .course import Course, node_mib, watermarks_mib
from .daemon import add_tenant, start_running
from .hosts import prepare
from .kdamonds import Kdamonds
from .measure import Counts, counts, run_seconds
from .policies import Policy
from .programs import SOCKET, Program

MIB = 1 << 20
# Names a directory for the logs of daemons.
LOGS = "BENCH_LOGS"
# Building a graph takes the guest eleven seconds, and twice as long on the slow node. A store's
# start takes two.
FILL_S = 120.0
# Seconds of the guest's clock; the slowest program takes some 25 s, and its long variant four times
# as long.
WORK_S = 300.0
# Interval between checks whether a program has filled its memory. The program is then stopped, and
# has worked for at most this long.
FILL_POLL_S = 0.005
# Boot's kernel workers share the one CPU for the first seconds. This wait takes no time, because an
# idle guest's clock jumps.
SETTLE_S = 8
# The free memory of the fast node, and the memory that other work of the kernel takes there, must
# not depend on the previous run.
KEPT_BY_KERNEL = (
    # khugepaged requests 66 MiB instead. Half of that would be on the fast node, as much as a
    # program's part.
    ("min_free_kbytes", 16384),
    # No temporary increase after a page was taken from a free list of another migration type.
    ("watermark_boost_factor", 0),
    # A per-CPU list holds a thousandth of a node instead of up to a tenth: memory on it is neither
    # free nor used.
    ("percpu_pagelist_high_fraction", 1000),
    # Proactive compaction starts at any time on a nearly full node, and takes up to 1.2 s of a
    # run's CPU time.
    ("compaction_proactiveness", 0),
)


@dataclass
class Filled:
    """A program that has filled its memory and has not started its work."""

    process: Process
    worker: Process | None = None

    @property
    def pid(self) -> int:
        """The process whose memory is placed."""
        return self.process.pid


def one(guest: Guest, program: Program, policy: Policy, host: str) -> dict[str, object]:
    """Runs a program on a host in this state, and returns the measurements. Raises AssertionError
    if the program failed or the daemon ended."""
    with contextlib.chdir(guest.directory), Kdamonds() as kdamonds:
        return _one(guest, program, policy, host, kdamonds)


def _one(
    guest: Guest, program: Program, policy: Policy, host: str, kdamonds: Kdamonds
) -> dict[str, object]:
    group = guest.cgroup("bench")
    if policy.ballast:
        prepare(guest, host, program.left_mib)
    room = node_mib()
    filled = _fill(guest, program, group)
    at_start = group.on_nodes()
    threads = run_seconds(group.processes())
    truth = guest.truth()
    running = start_running(guest) if policy.running else None
    before = counts(truth, kdamonds, [running.pid] if running else [])
    course = Course(group, truth, kdamonds)
    worker = _go(guest, program, filled)
    if running:
        add_tenant(running, group)
    daemon = running or policy.start(guest, group, filled.pid)
    try:
        with course:
            status = worker.wait(WORK_S)
            after = counts(truth, kdamonds, [daemon.pid] if daemon else [])
        assert status == 0, f"{worker.words[0]} ended with status {status}: {worker.printed()}"
        assert not daemon or daemon.running(), (
            f"the policy's program ended: {daemon.printed() if daemon else ''}"
        )
    finally:
        policy.end()
    measured = record(
        before, after, at_start, room, read("/proc/zoneinfo"), course, worker.json_lines()[-1]
    )
    return {**measured, "threads_at_start_s": threads, "settings": dict(policy.settings)}


def record(
    before: Counts,
    after: Counts,
    at_start: Sequence[int],
    room: Mapping[str, float],
    zoneinfo: str,
    course: Course,
    printed: Mapping[str, float],
) -> dict[str, object]:
    """The measurements of a run. `at_start` is the program's bytes by node, `room` the fast node's
    meminfo in MiB, `printed` the program's own figures. The host's bench.table.Run has these fields
    and the words of the run."""
    return {
        **after.since(before),
        "resident_mib": sum(at_start) / MIB,
        "fast_mib_at_start": at_start[0] / MIB,
        "free_mib_at_start": room["MemFree"],
        "file_mib_at_start": room["FilePages"],
        "watermarks_mib": watermarks_mib(zoneinfo),
        "course": course.points(),
        "hot": course.hot(),
        "printed": printed,
    }


def _fill(guest: Guest, program: Program, group: Cgroup) -> Filled:
    """Starts a program and waits until its memory is filled. A program that would continue is
    stopped."""
    report = guest.directory / "filled"
    words = program.words if program.prints_when_filled else (*program.words, f"report={report}")
    process = guest.start(*words, cgroup=group)

    def filled() -> bool:
        assert process.running(), f"{process.words} ended: {process.printed()}"
        if program.load:
            return (guest.directory / SOCKET).exists()
        return "\n" in process.printed() if program.prints_when_filled else report.exists()

    wait_until(filled, FILL_S, process.printed, every_s=FILL_POLL_S)
    if program.load:
        guest.run(*program.load, within_s=FILL_S)
    else:
        process.signal(signal.SIGSTOP)
        wait_until(lambda: _state(process.pid) == "T", 10, "it did not stop")
    return Filled(process)


def _state(pid: int) -> str:
    return read(f"/proc/{pid}/stat").rpartition(")")[2].split()[0]


def _go(guest: Guest, program: Program, filled: Filled) -> Process:
    """Starts the work, and returns the process that ends with it."""
    if program.work:
        return guest.start(*program.work)
    filled.process.signal(signal.SIGCONT)
    return filled.process


def settle() -> None:
    """Waits until the kernel's work after its boot is done, and sets the memory that the kernel
    keeps to small and constant amounts."""
    time.sleep(SETTLE_S)
    for name, value in KEPT_BY_KERNEL:
        write(f"/proc/sys/vm/{name}", value)
    # The kernel's own monitoring takes up to 3 s of a run's CPU time and moves no page. tierwised
    # switches it off, so it is off for all policies.
    if DAMON_STAT.exists():
        write(DAMON_STAT, "N")
