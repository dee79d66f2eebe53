"""Tests of the check that the hot heap is the hotter one, with a fake in the tracker's place."""

from __future__ import annotations

import math
import random
from array import array

import pytest
from tierwise.emt.heaps import HeapUse
from tierwise.emt.segregation import RARELY, Segregation

PAGES = 1000
SLOW = HeapUse(0, PAGES, 0, PAGES, 0)
FAST = HeapUse(PAGES, 2 * PAGES, 0, 2 * PAGES, 2 * PAGES)
#: Of the records of the bench's strewn workload, two fifths of the pages that are examined have
#: lists and numbers, which each use writes; the others have floats, which nothing uses.
IN_USE = 0.4
#: Its uses of a page in a second, of the current lists and of the others.
OFTEN, SELDOM = 380.0, 10.6
INTERVAL_S = 0.25


class FakeMemory:
    """Pages that are used at random times, at the rate of their heap."""

    def __init__(self, slow_rate: float, fast_rate: float) -> None:
        self.rates = {SLOW: slow_rate, FAST: fast_rate}
        self.windows: list[float] = []
        self.swapped = 0
        self._draw = random.Random(1)
        self._idle = {page for page in range(2 * PAGES) if self._draw.random() > IN_USE}

    def spread(self, start: int, end: int, most: int) -> array[int]:
        return array("Q", range(start, end, (end - start) // most + 1))

    def touched(self, pages: array[int], window_s: float) -> bytes:
        self.windows.append(window_s)
        return bytes(self._is_touched(page, window_s) for page in pages)

    def _is_touched(self, page: int, window_s: float) -> bool:
        rate = self.rates[SLOW if page < PAGES else FAST]
        return page not in self._idle and self._draw.random() < 1 - math.exp(-rate * window_s)

    def swap(self) -> None:
        self.swapped += 1

    def check(self, rounds: int) -> Segregation:
        check = Segregation(self.spread, self.touched, INTERVAL_S, self.swap)
        for _ in range(rounds):
            check.round((SLOW, FAST))
        return check


def test_wrong_heaps_exchange_in_two_checks() -> None:
    """In windows of an interval all pages in use of both heaps are touched, so that hotness does
    not differ: in the lab's guest tracking did not find the wrong heaps within half a minute."""
    memory = FakeMemory(slow_rate=OFTEN, fast_rate=SELDOM)
    memory.check(1)
    assert memory.swapped == 0
    assert memory.check(2).swaps == memory.swapped == 1


@pytest.mark.parametrize("rate", [0.0, SELDOM, OFTEN, 1e6])
def test_heaps_that_are_alike_stay(rate: float) -> None:
    memory = FakeMemory(slow_rate=rate, fast_rate=rate)
    memory.check(50)
    assert memory.swapped == 0
    assert max(memory.windows) == INTERVAL_S


def test_right_heaps_are_checked_seldom() -> None:
    memory = FakeMemory(slow_rate=SELDOM, fast_rate=OFTEN)
    memory.check(1 + 3 * (RARELY + 1))
    assert memory.swapped == 0
    assert len(memory.windows) == 4


def test_checks_wait_for_the_work() -> None:
    """A check before the work begins finds nothing, and does not count as one that was right."""
    memory = FakeMemory(slow_rate=0.0, fast_rate=0.0)
    check = memory.check(1)
    memory.rates = {SLOW: OFTEN, FAST: SELDOM}
    check.round((SLOW, FAST))
    check.round((SLOW, FAST))
    assert check.swaps == 1


def test_rates_beyond_every_window_differ() -> None:
    """The shortest window tells pages of some uses in a second from idle ones."""
    memory = FakeMemory(slow_rate=5.0, fast_rate=0.0)
    memory.check(2)
    assert memory.swapped == 1


def test_stopped_window_gives_no_verdict() -> None:
    memory = FakeMemory(slow_rate=OFTEN, fast_rate=0.0)
    check = Segregation(memory.spread, lambda pages, window_s: b"", INTERVAL_S, memory.swap)
    for _ in range(5):
        check.round((SLOW, FAST))
    assert memory.swapped == 0


def test_few_pages_give_no_verdict() -> None:
    memory = FakeMemory(slow_rate=OFTEN, fast_rate=0.0)
    small = SLOW._replace(end=20)
    check = Segregation(memory.spread, memory.touched, INTERVAL_S, memory.swap)
    assert [check.round((small, FAST)) for _ in range(3)] == [0, 0, 0]
    assert check.round(None) == 0
    assert memory.windows == []
