"""Kernel settings that a test may change; they are restored after the test."""

from pathlib import Path

from .files import read, write

NUMA_BALANCING = Path("/proc/sys/kernel/numa_balancing")
DEMOTION = Path("/sys/kernel/mm/numa/demotion_enabled")
# The fraction of a zone that per-CPU lists may hold: one in this number; with 0 the kernel chooses,
# up to an eighth.
PER_CPU_LISTS = Path("/proc/sys/vm/percpu_pagelist_high_fraction")
NUMA_SCANNING = Path("/sys/kernel/debug/sched/numa_balancing")
KEPT = (
    NUMA_BALANCING,
    DEMOTION,
    PER_CPU_LISTS,
    NUMA_SCANNING / "scan_period_min_ms",
    NUMA_SCANNING / "scan_delay_ms",
    Path("/proc/sys/vm/zone_reclaim_mode"),
    Path("/proc/sys/vm/min_unmapped_ratio"),
    Path("/proc/sys/vm/min_slab_ratio"),
    Path("/sys/kernel/mm/lru_gen/enabled"),
    Path("/sys/kernel/mm/transparent_hugepage/enabled"),
)


def value(path: Path) -> str:
    """Returns a setting in the form for writing: the word in brackets, if the file lists the
    choices."""
    text = read(path)
    return text[text.index("[") + 1 : text.index("]")] if "[" in text else text


def snapshot() -> dict[Path, str]:
    """Returns the current values of all kept settings that this kernel has."""
    return {path: value(path) for path in KEPT if path.exists()}


def restore(saved: dict[Path, str]) -> None:
    """Restores the settings that differ."""
    for path, text in saved.items():
        if value(path) != text:
            write(path, text)
