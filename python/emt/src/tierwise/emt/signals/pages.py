"""The common part of the two kernel signals: a pace, and the extension's tracker."""

from __future__ import annotations

from array import array

from ..budget import first_pace, next_pace
from ..errors import Unavailable
from ..native import NativeTable
from ..support import extension
from .base import Sampled
from .uses import types_whose_uses_write

#: The weight of a check in equation 1. A page has one or two checks in a rotation of some ten
#: intervals. A weight of a quarter averages about four checks, which reduces the noise of single
#: windows.
SAMPLE_K = 0.25


class PageSignal:
    """A rotating part of the pages is protected for a window (csrc/tracker.h)."""

    name = ""

    def __init__(self, budget: float, interval_s: float) -> None:
        try:
            self._tracker = extension().Tracker(self.name)
        except OSError as error:
            raise Unavailable(str(error.args[1] if len(error.args) > 1 else error)) from error
        self.fault_s = self._tracker.fault_ns / 1e9
        self.rounds = 0
        self._pace = first_pace(budget, interval_s, self.fault_s)
        self._tested = 0
        self._touched = 0

    def sample(self, table: NativeTable, interval_s: float, stop: int) -> Sampled:
        """Samples for one interval of windows."""
        pace = self._pace
        interval_ns = int(interval_s * 1e9)
        window_ns = max(1, int(interval_ns * pace.window))
        tested, touched, faults, rounds, _, _ = self._tracker.sample(
            table.inner, interval_ns, window_ns, pace.pages_per_window, SAMPLE_K, stop
        )
        self.rounds += rounds
        self._tested, self._touched = tested, touched
        return Sampled(tested, touched, faults, faults * self.fault_s)

    def touched(self, table: NativeTable, pages: array[int], window_s: float, stop: int) -> bytes:
        """Tells which pages are touched within a window: 1 or 0 for each; nothing if it was
        stopped."""
        found: bytes = self._tracker.touched(table.inner, pages, int(window_s * 1e9), stop)
        return found

    def adjust(self, cost_share: float, budget: float) -> None:
        """Sets the next pace."""
        self._pace = next_pace(self._pace, budget, cost_share, self._tested, self._touched)

    def judged(self) -> array[int] | None:
        """Returns the types of objects, because only writes are reported."""
        return types_whose_uses_write()

    def memory_bytes(self) -> int:
        """Returns 0: lists of mappings are small."""
        return 0

    def close(self) -> None:
        """Removes all protection."""
        self._tracker.close()
