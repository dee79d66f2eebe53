"""Checks while tracking runs that the hot heap is the hotter one.

What a program or a profile says of new objects may be wrong, or may have become wrong. So pages of
both heaps are watched in the same windows. If more of the cold heap's are touched, the heaps
exchange their nodes: then the program is where it would be if it had said the opposite.

The hotness that tracking has of pages does not serve here. In a window long enough for all pages in
use to be touched they are equally hot, however often they are used; tracking shortens its windows
only where most pages are touched, and idle objects beside the used ones prevent that. And its
rotation visits the heaps at different times, with windows of different lengths.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable

from .budget import MIN_WINDOW
from .heaps import HEAPS, HeapUse

#: Pages of each heap that are watched: a window of both costs half a millisecond, and their choice
#: one. With fewer than the least number there is no verdict.
PAGES, MIN_PAGES = 128, 32
#: How many times as many pages must be touched: a swap moves both heaps, and where they are alike
#: it gains nothing.
HOTTER = 1.5
#: The difference of the touched shares in its standard deviations: chance reaches three of them
#: once in 370 windows.
CERTAIN = 3.0
#: Checks in a row that must find it hotter: a phase of a program may use what it seldom uses.
IN_A_ROW = 2
#: Rounds between checks once a check has found the heaps right: 16 s at the default interval. After
#: a check without a result the next round has one: the program may not have begun its work.
RARELY = 8


class Segregation:
    """The checks of a run of tracking."""

    def __init__(
        self,
        pages: Callable[[int, int, int], array[int]],
        touched: Callable[[array[int], float], bytes],
        longest_s: float,
        swap: Callable[[], None] = HEAPS.swap,
    ) -> None:
        """`pages` returns some pages of a range, and `touched` tells which pages are touched
        within a window, of at most `longest_s`; nothing if tracking ends."""
        self._pages = pages
        self._touched = touched
        self._longest_s = longest_s
        self._swap = swap
        self._found = 0
        self._rests = 0
        self.swaps = 0
        """How often the heaps have exchanged their nodes."""

    def round(self, heaps: tuple[HeapUse, HeapUse] | None) -> int:
        """Checks the heaps on the slow and the fast nodes, and swaps them if they are wrong.
        Returns the faults that the program pays for it, at most."""
        if heaps is None:
            return 0
        if self._rests > 0:
            self._rests -= 1
            return 0
        slow, fast = (self._pages(heap.start, heap.end, PAGES) for heap in heaps)
        if min(len(slow), len(fast)) < MIN_PAGES:
            return 0
        verdict, faults = self._compare(slow, fast)
        self._found = self._found + 1 if verdict > 0 else 0
        if self._found >= IN_A_ROW:
            self._swap()
            self.swaps += 1
            self._found = 0
        elif verdict < 0:
            self._rests = RARELY
        return faults

    def _compare(self, slow: array[int], fast: array[int]) -> tuple[int, int]:
        """Returns 1 if the slow heap is the hotter one, -1 if the fast one is, 0 if they are alike,
        and the faults. The shortest window that tells counts: in longer ones more pages are touched
        of both."""
        window_s, faults = self._longest_s * MIN_WINDOW, len(slow) + len(fast)
        while window_s <= self._longest_s:
            touched = self._touched(slow + fast, window_s)
            if not touched:
                return 0, faults
            faults += sum(touched)
            counts = sum(touched[: len(slow)]), sum(touched[len(slow) :])
            verdict = compared(counts[0], len(slow), counts[1], len(fast))
            if verdict:
                return verdict, faults
            window_s *= 2
        return 0, faults


def compared(first: int, of_first: int, second: int, of_second: int) -> int:
    """Compares the touched pages of two samples: 1 or -1 for the hotter one, or 0.

    >>> compared(40, 128, 4, 128), compared(4, 128, 40, 128)
    (1, -1)
    >>> compared(3, 128, 0, 128), compared(128, 128, 100, 128)
    (0, 0)
    """
    one, other = first / of_first, second / of_second
    both = (first + second) / (of_first + of_second)
    deviation = math.sqrt(both * (1.0 - both) * (1.0 / of_first + 1.0 / of_second))
    if abs(one - other) <= CERTAIN * deviation or max(one, other) <= HOTTER * min(one, other):
        return 0
    return 1 if one > other else -1
