"""What the benches of several tenants measure in each run."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class MixRecord:
    """One run under one policy."""

    policy: str
    course: Sequence[Mapping[str, Any]]
    """The points that bench/mix_watch.py has recorded."""
    seconds: float
    misses: Sequence[int]
    user_misses: Sequence[int]
    migrated_pages: int
    promoted_pages: int
    demoted_pages: int
    kernel_cpu_s: float
    daemon_cpu_s: float
    resident_mib: Mapping[str, float]
    fast_mib_at_start: Mapping[str, float]
    free_mib_at_start: float
    kdamond_cpu_s: float = 0.0
    """DAMON's part of kernel_cpu_s; 0 in records from before it was counted."""
    idle_s: float = 0.0
    """Seconds for which nothing ran, summed over the CPUs; 0 in records from before."""
    watermarks_mib: Mapping[str, float] = field(default_factory=dict)
    vmstat: Mapping[str, int] = field(default_factory=dict)

    def work_between(self, tenant: str, start: float, end: float) -> float:
        """Returns a tenant's work between two times, in seconds since the start."""
        return self._work_until(tenant, end) - self._work_until(tenant, start)

    def fast_misses_after(self, seconds: float) -> float:
        """Returns the share of user programs' misses after a time that the fast node served."""
        first = next(p for p in self.course if p["seconds"] >= seconds)["user_misses"]
        counted = [b - a for a, b in zip(first, self.course[-1]["user_misses"], strict=True)]
        return float(counted[0] / max(sum(counted), 1))

    def tiering_cpu_s(self) -> float:
        """Returns the CPU time of the daemon and of the kernel's threads that tier."""
        return self.kernel_cpu_s + self.daemon_cpu_s

    def _work_until(self, tenant: str, seconds: float) -> float:
        """Interpolates between the two nearest points."""
        times = [point["seconds"] for point in self.course]
        at = min(max(bisect_left(times, seconds), 1), len(times) - 1)
        (t0, t1), (w0, w1) = (
            times[at - 1 : at + 1],
            (point["work"][tenant] for point in self.course[at - 1 : at + 1]),
        )
        part = min(max((seconds - t0) / (t1 - t0), 0.0), 1.0)
        return float(w0 + part * (w1 - w0))
