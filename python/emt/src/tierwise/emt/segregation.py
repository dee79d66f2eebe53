"""Checks while tracking runs that the hot heap is the hotter one.

What a program or a profile says of new objects may be wrong, or may have become wrong. Tracking
knows how hot the pages of both heaps are. If those of the cold heap are hotter, the heaps exchange
their nodes: then the program is where it would be if it had said the opposite.
"""

from __future__ import annotations

from collections.abc import Callable

from .heaps import HEAPS, HeapUse
from .native import NativeTable

#: Pages of each heap that are examined: a check of both takes a millisecond. With fewer than the
#: least number there is no verdict.
PAGES, MIN_PAGES = 128, 32
#: How much hotter the cold heap must be. A swap moves both heaps, and where they are alike it gains
#: nothing. Pages that are used in each window are equally hot, however often, so that heat differs
#: less than use: forty times as many uses were 2.5 to 3.2 times as hot.
HOTTER = 1.5
#: Checks in a row that must find it hotter: a phase of a program may use what it seldom uses.
IN_A_ROW = 2
#: Rounds between checks once a check has found the heaps right: 16 s at the default interval.
RARELY = 8


class Segregation:
    """The checks of a run of tracking."""

    def __init__(self, table: NativeTable, swap: Callable[[], None] = HEAPS.swap) -> None:
        self._table = table
        self._swap = swap
        self._found = 0
        self._rests = 0
        self.swaps = 0
        """How often the heaps have exchanged their nodes."""

    def round(self, heaps: tuple[HeapUse, HeapUse] | None) -> None:
        """Checks the heaps on the slow and the fast nodes, and swaps them if they are wrong."""
        if heaps is None:
            return
        if self._rests > 0:
            self._rests -= 1
            return
        slow, fast = self._table.mean([(heap.start, heap.end) for heap in heaps], PAGES)
        if min(slow[0], fast[0]) < MIN_PAGES:
            return
        self._found = self._found + 1 if slow[1] > HOTTER * fast[1] else 0
        if self._found >= IN_A_ROW:
            self._swap()
            self.swaps += 1
            self._found = 0
        if self._found == 0:
            self._rests = RARELY
