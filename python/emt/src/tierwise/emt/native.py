"""The extension's page table and moves, with the interface that `policy` uses."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING

from .policy.buckets import Histogram
from .support import extension

if TYPE_CHECKING:
    from . import _emt


class NativeTable:
    """The software page table for whole pages, without the interpreter's lock."""

    def __init__(self, judged: Callable[[], array[int] | None] = lambda: None) -> None:
        """`judged` returns the types whose objects' pages may be found idle; see
        `signals.Signal`."""
        self.inner: _emt.Table = extension().Table()
        self._judged = judged
        self._next_chunk = 0

    def __len__(self) -> int:
        return len(self.inner)

    def histogram(self) -> Histogram:
        """Pages by tier and bucket."""
        return Histogram(*self.inner.histogram())

    def judge(self, h: int) -> None:
        """Counts the samplings in which each page was cold."""
        self.inner.judge(h)

    def coldest_fast(self, h: int, patience: int, limit: int) -> array[int]:
        """Returns fast pages below bucket h that may be found idle, the coldest first."""
        types = self._judged() if limit > 0 else None
        return array("Q", self.inner.coldest_fast(h, patience, limit, types))

    def hottest_slow(self, h: int, limit: int) -> array[int]:
        """Returns slow pages in bucket h and above, the hottest first."""
        return array("Q", self.inner.hottest_slow(h, limit))

    def place(self, addresses: array[int], fast: bool) -> None:
        """Records the tier of pages."""
        self.inner.place(addresses, fast)

    def refuse(self, addresses: array[int]) -> None:
        """Records that pages did not move."""
        self.inner.refuse(addresses)

    def hold(self, ranges: array[int]) -> None:
        """Sets the ranges that stay where they are: starts and ends, ascending."""
        self.inner.hold(ranges)

    def spread(self, start: int, end: int, pages: int) -> array[int]:
        """Returns at most so many pages of a range, evenly spread, whose uses are all reported."""
        return array("Q", self.inner.spread(start, end, pages, self._judged()))

    def hotness(self, address: int) -> float:
        """The hotness of the page at an address."""
        return self.inner.hotness(address)

    def locate(self, fast_mask: int, pages: int) -> None:
        """Queries the kernel for the nodes of this many more pages, in rotation."""
        self._next_chunk = self.inner.locate(fast_mask, self._next_chunk, pages)

    def pages(self) -> tuple[array[int], array[float], bytes]:
        """Addresses, hotness and tiers (0 is fast) of all pages."""
        addresses, hotness, tiers = self.inner.pages()
        return array("Q", addresses), array("f", hotness), tiers

    def memory_bytes(self) -> int:
        """Returns the memory that the table takes."""
        return self.inner.memory_bytes()


class NativeKernel:
    """move_pages(2)."""

    def __init__(self) -> None:
        self._extension = extension()

    def move(self, addresses: array[int], node: int) -> array[int]:
        """Moves pages to a node."""
        return array("i", self._extension.move_pages(addresses, node))

    def nodes(self, addresses: array[int]) -> array[int]:
        """Locates pages."""
        return array("i", self._extension.page_nodes(addresses))
