"""Counters in the guest while a program runs: the clock, true misses, moves, and the cost of
tiering."""

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tierguest.files import table
from tierguest.program import processor_seconds
from tierguest.truth import Truth

from .kdamonds import Kdamonds

# The kernel's threads that work for tiering as long as it runs: reclaim and demotion, and
# compaction, which moves need. DAMON's threads end (kdamonds.py).
THREADS = ("kswapd", "kcompactd")
MOVES = {"migrated": "pgmigrate_success", "promoted": "pgpromote_success"}
# Counters of the kernel's own tiering: sampling, faults, candidates, reclaim, failed moves.
COUNTERS = (
    "numa_pte_updates",
    "numa_hint_faults",
    "pgpromote_candidate",
    "pgpromote_candidate_nrl",
    "pgmigrate_fail",
    "pageoutrun",
    "kswapd_low_wmark_hit_quickly",
    "kswapd_high_wmark_hit_quickly",
    "pgscan_kswapd",
    "pgsteal_kswapd",
    "pgscan_direct",
    "allocstall_normal",
    "pgfault",
)
# Their sum is used: the kernel version and the cause of a demotion decide which of them exist and
# count.
DEMOTIONS = ("pgdemote_kswapd", "pgdemote_direct", "pgdemote_khugepaged", "pgdemote_proactive")


@dataclass(frozen=True)
class Counts:
    """All counters at one time."""

    seconds: float
    misses: tuple[int, ...]
    """True misses by node."""
    user_misses: tuple[int, ...]
    """True misses by node without the kernel's, which copies pages."""
    vmstat: dict[str, int]
    """Those of COUNTERS that this kernel has."""
    migrated: int
    promoted: int
    demoted: int
    threads: dict[int, float]
    """CPU seconds of the kernel's threads that do not end, by thread id."""
    kdamonds: float
    """CPU seconds of DAMON's threads, together."""
    processes: dict[int, float]
    """CPU seconds of the processes that tier, by process id."""
    idle: float = 0.0
    """Seconds for which nothing ran, summed over the CPUs."""

    def since(self, before: "Counts") -> dict[str, object]:
        """Returns the differences from an earlier count."""
        kdamonds = self.kdamonds - before.kdamonds
        return {
            "seconds": self.seconds - before.seconds,
            "misses": [now - then for now, then in zip(self.misses, before.misses, strict=True)],
            "user_misses": [
                now - then for now, then in zip(self.user_misses, before.user_misses, strict=True)
            ],
            "vmstat": {name: now - before.vmstat[name] for name, now in self.vmstat.items()},
            "migrated_pages": self.migrated - before.migrated,
            "promoted_pages": self.promoted - before.promoted,
            "demoted_pages": self.demoted - before.demoted,
            "kernel_cpu_s": used(self.threads, before.threads) + kdamonds,
            "kdamond_cpu_s": kdamonds,
            "daemon_cpu_s": used(self.processes, before.processes),
            "idle_s": self.idle - before.idle,
        }


def used(now: dict[int, float], before: dict[int, float]) -> float:
    """Returns the CPU seconds of the processes that exist now; those that started meanwhile had
    used none."""
    return sum(seconds - before.get(pid, 0.0) for pid, seconds in now.items())


def demotions(vmstat: Mapping[str, int]) -> int:
    """Returns the demoted pages so far."""
    return sum(vmstat.get(name, 0) for name in DEMOTIONS)


def counts(truth: Truth, kdamonds: Kdamonds, processes: list[int]) -> Counts:
    """Returns the counts so far; `processes` are daemons that tier."""
    vmstat = table("/proc/vmstat")
    return Counts(
        seconds=time.monotonic(),
        misses=tuple(node.loads + node.stores for node in truth.misses()),
        user_misses=tuple(truth.user_misses()),
        vmstat={name: vmstat[name] for name in COUNTERS if name in vmstat},
        migrated=vmstat.get(MOVES["migrated"], 0),
        promoted=vmstat.get(MOVES["promoted"], 0),
        demoted=demotions(vmstat),
        threads=tiering_threads(),
        kdamonds=kdamonds.sample(),
        processes={pid: processor_seconds(pid) for pid in processes},
        idle=idle_seconds(),
    )


def idle_seconds(proc: Path = Path("/proc")) -> float:
    """Returns the seconds for which nothing ran, summed over the CPUs, those in which a program
    waited for the disk among them. A guest's time passes much faster then than while a program
    runs."""
    name, _user, _nice, _system, idle, iowait, *_ = (proc / "stat").read_text().split()
    assert name == "cpu", f"{proc}/stat: the first line is of {name}, not of all CPUs"
    return (int(idle) + int(iowait)) / os.sysconf("SC_CLK_TCK")


def run_seconds(pids: Iterable[int], proc: Path = Path("/proc")) -> list[float]:
    """Returns the seconds for which each thread of these processes has run, the longest first; the
    kernel's scan of a process follows its threads' run time (`sum_exec_runtime`)."""
    found = []
    for pid in pids:
        for thread in proc.glob(f"{pid}/task/*/schedstat"):
            try:
                found.append(int(thread.read_text().split()[0]) / 1e9)
            except (FileNotFoundError, ProcessLookupError):
                # The thread ended between the listing and the reading.
                continue
    return sorted(found, reverse=True)


def tiering_threads(proc: Path = Path("/proc")) -> dict[int, float]:
    """Returns the CPU seconds of the kernel's threads of these names."""
    found = {}
    for directory in proc.iterdir():
        if not directory.name.isdigit():
            continue
        try:
            if (directory / "comm").read_text().startswith(THREADS):
                found[int(directory.name)] = processor_seconds(int(directory.name), proc)
        except (FileNotFoundError, ProcessLookupError):
            # A process ended between the listing and the reading.
            continue
    return found
