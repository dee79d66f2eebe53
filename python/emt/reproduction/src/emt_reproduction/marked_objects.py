"""Objects found by the paper's recursive marking (section 5.1, algorithm 1), for reproduction.

Marking stops the program. A marking is skipped if the collector has done little since the last one:
figure 2 of the paper shows that few new objects are found then. Every object has its own entry,
with its eight changes and its features, in plain Python. This is slow and exact.
"""

from __future__ import annotations

import gc
from array import array

from tierwise.emt.descriptors import wait_readable
from tierwise.emt.errors import Unavailable
from tierwise.emt.native import NativeTable
from tierwise.emt.signals import Sampled
from tierwise.emt.signals.uses import types_whose_uses_write

from . import _objects
from .marking import due
from .policy.cooling import DEFAULT_K
from .policy.linear import LinearModel
from .policy.object_hotness import ObjectHotness
from .representation import REPRESENTATIONS

#: Limits of a container's visit: the paper shows the effect of limits (figure 3) and does not give
#: its own. A depth of 64 covers nested data, and a length of a million covers all but the largest
#: lists.
MAX_LENGTH = 1_000_000
MAX_DEPTH = 64
PAGE_BYTES = 4096


class MarkedObjects:
    """refdelta or growth, by marking."""

    def __init__(
        self,
        name: str,
        representation: str,
        max_length: int = MAX_LENGTH,
        max_depth: int = MAX_DEPTH,
    ) -> None:
        self.name = name
        self._growth = name == "growth"
        if self._growth and not _objects.GROWTH_BUILD_ID:
            raise Unavailable(
                "growth: this interpreter counts no changes of reference counts; growth/build.sh "
                "builds one that does"
            )
        self._representation = REPRESENTATIONS[representation]
        self._limits = (max_length, max_depth)
        self._hotness = ObjectHotness(LinearModel.shipped(name), bits=32)
        self._marked: array[int] = array("Q")
        self._collections = -1

    def sample(self, table: NativeTable, interval_s: float, stop: int) -> Sampled:
        """Marks if that is due, waits, and reads the counters of the objects that are not
        skipped."""
        collections = sum(generation["collections"] for generation in gc.get_stats())
        if self._collections < 0 or due(collections - self._collections):
            self._mark()
            self._collections = collections
        wait_readable(stop, interval_s)
        wanted = array("Q", self._hotness.wanted(self._marked))
        values, readable = _objects.counters(wanted, self._growth)
        counters = {
            address: value
            for address, value, could in zip(wanted, array("I", values), readable, strict=True)
            if could
        }
        if len(counters) < len(wanted):
            self._hotness.drop(set(wanted) - set(counters))
        hotness = self._hotness.sample(counters)
        table.inner.see(self._of_pages(hotness), DEFAULT_K)
        return Sampled(len(wanted), len(hotness), 0, 0.0)

    def _mark(self) -> None:
        before = set(self._marked)
        self._marked = array("Q", _objects.mark(*self._limits))
        self._hotness.drop(before.difference(self._marked))

    def _of_pages(self, hotness: dict[int, float]) -> dict[int, float]:
        of_page: dict[int, list[float]] = {}
        for address, value in hotness.items():
            of_page.setdefault(address & ~(PAGE_BYTES - 1), []).append(value)
        return {address: self._representation(values) for address, values in of_page.items()}

    def adjust(self, cost_share: float, budget: float) -> None:
        """Does nothing: in the paper limits and skipping bound marking, and not a budget. Intervals
        pause instead."""

    def judged(self) -> array[int] | None:
        """Only objects: memory without a counter is not reported."""
        return types_whose_uses_write()

    def memory_bytes(self) -> int:
        """Returns 20 bytes per object, as the paper counts."""
        return 20 * len(self._marked)

    def close(self) -> None:
        """Forgets all objects."""
        self._marked = array("Q")
        self._hotness = ObjectHotness(LinearModel.shipped(self.name), bits=32)
