"""The mode of time in a guest: as fast as the host can (function mode), or by its misses (timed
mode)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .topology import Topology

# DAMON checks every 5 ms by default. With flushes twice as often, the CPU walks to the page table
# entry of every page in use between two checks. At 4 ms DAMON misses up to a quarter of these
# pages, at 10 ms half (lab/README.md has the figures).
FLUSH_US = 2000
# A 4 MiB last-level cache in front of programs of some 100 MiB, as tens of MiB are in front of tens
# of GiB.
LLC_BYTES = 4 << 20
LLC_WAYS = 16
# An access beyond the first-level cache takes tens of nanoseconds in a timed guest: 20,000 take a
# few milliseconds, less than the 5 ms between two of DAMON's checks.
FLUSH_ACCESSES = 20000


@dataclass(frozen=True)
class Mode:
    """The emulation, and the plugin's work. `counters` is the file for the true misses, if they are
    counted."""

    timed: bool = False
    # True if function mode counts true misses too, at a third of its speed.
    truth: bool = False
    flush_us: int = FLUSH_US
    flush_accesses: int = FLUSH_ACCESSES
    llc_bytes: int = LLC_BYTES
    llc_ways: int = LLC_WAYS

    @property
    def processors(self) -> int:
        """Returns the number of CPUs. icount runs CPUs one after the other, so several would only
        add noise."""
        return 1 if self.timed else 2

    @property
    def counts(self) -> bool:
        """Returns true if true misses are counted."""
        return self.timed or self.truth

    def arguments(self, plugin: Path, topology: Topology, counters: Path) -> list[str]:
        """Returns QEMU's arguments for emulation and plugin. `sleep=off` makes an idle guest's time
        pass at once."""
        threads = "single" if self.timed else "multi"
        words = ["-accel", f"tcg,thread={threads}"]
        if self.timed:
            words += ["-icount", "shift=0,sleep=off"]
        return [*words, "-plugin", ",".join([str(plugin), *self._plugin(topology, counters)])]

    def _plugin(self, topology: Topology, counters: Path) -> Sequence[str]:
        if not self.counts:
            return [f"flush_us={self.flush_us}"]
        nodes = []
        for node, ranges in enumerate(topology.physical_ranges()):
            where = "+".join(f"{start:#x}-{end:#x}" for start, end in ranges)
            nodes.append(f"node={node}:{topology.latency_ns[node]}:{where}")
        return [
            *nodes,
            f"counters={counters}",
            f"llc_bytes={self.llc_bytes}",
            f"llc_ways={self.llc_ways}",
            f"flush_accesses={self.flush_accesses}",
            f"charge={'on' if self.timed else 'off'}",
        ]
