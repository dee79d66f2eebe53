"""Finds objects by walking the allocator's pools, and samples their counters, phase by phase.

The counter is one of two: `growth`, the paper's counter of changes in the upper half of ob_refcnt
(section 5.2), which needs the interpreter that growth/build.sh builds; or `refdelta`, the reference
count of a stock interpreter. That is a weak baseline: a use takes a reference and drops it, and the
two changes cancel, so that it detects only references that are held at the time of a sample.

The objects of a turn are those that fit into the memory that sampling may take. After eight samples
the next pools follow. If all objects fit, the paper's skipping of all-zero objects avoids sampling
most of them.
"""

from __future__ import annotations

import os
from array import array
from pathlib import Path

from tierwise.emt.descriptors import wait_readable
from tierwise.emt.errors import Unavailable
from tierwise.emt.native import NativeTable
from tierwise.emt.signals import Sampled
from tierwise.emt.signals.known_types import all_types
from tierwise.emt.signals.uses import types_whose_uses_write

from . import _objects
from .policy.cooling import DEFAULT_K
from .policy.features import SAMPLES
from .policy.linear import LinearModel

#: Bytes that a sampled object takes (csrc/objects.h).
OBJECT_BYTES = 16
#: The share of the resident set that all sampled objects may take together.
MEMORY_SHARE = 0.005


class PoolObjects:
    """refdelta or growth, by pools."""

    def __init__(self, name: str, memory_share: float = MEMORY_SHARE) -> None:
        self.name = name
        try:
            self._objects = _objects.Objects(name == "growth")
        except (OSError, RuntimeError) as error:
            raise Unavailable(f"{name}: {error}") from error
        model = LinearModel.shipped(name)
        median, deviation, nonzero, small, spread = model.weights
        self._weights = (median, deviation, nonzero, small, spread, model.intercept)
        self._memory_share = memory_share
        self._phase = 0
        self._share = 1.0
        try:
            self._refuse_without_pools()
        except BaseException:
            self.close()
            raise

    def _refuse_without_pools(self) -> None:
        try:
            pools, _, objects, _ = self._objects.collect(types_of_objects(), 1 << 16)
        except OSError as error:
            raise Unavailable(f"{self.name}: {error.args[1]}") from error
        if pools == 0 or objects == 0:
            raise Unavailable(
                f"{self.name}: this process has no pools of objects (PYTHONMALLOC=malloc, or "
                "another allocator); use signal='uffd-wp'"
            )

    def sample(self, table: NativeTable, interval_s: float, stop: int) -> Sampled:
        """Runs one phase: it starts a turn if one is due, waits, and reads the counters."""
        if self._phase == 0:
            most = int(resident_bytes() * self._memory_share / OBJECT_BYTES * self._share)
            self._objects.collect(types_of_objects(), max(SAMPLES, most))
        wait_readable(stop, interval_s)
        sampled, _ = self._objects.sample()
        self._phase += 1
        if self._phase == SAMPLES:
            self._phase = 0
            table.inner.check(*self._objects.report(self._weights), DEFAULT_K)
        return Sampled(sampled, sampled, 0, 0.0)

    def adjust(self, cost_share: float, budget: float) -> None:
        """Reduces the objects of a turn if a turn exceeds its budget."""
        self._share = min(1.0, max(0.01, self._share * (0.5 if cost_share > budget else 1.1)))

    def judged(self) -> array[int] | None:
        """Returns the types of objects, because memory without a counter is not reported."""
        return types_whose_uses_write()

    def memory_bytes(self) -> int:
        """Returns the memory of objects and pools."""
        taken: int = self._objects.memory_bytes()
        return taken

    def close(self) -> None:
        """Releases the allocator."""
        self._objects.close()


def types_of_objects() -> array[int]:
    """Returns the addresses of all types."""
    return array("Q", all_types())


def resident_bytes(status: Path = Path("/proc/self/statm")) -> int:
    """Returns the process's resident set in bytes."""
    return int(status.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGESIZE")
