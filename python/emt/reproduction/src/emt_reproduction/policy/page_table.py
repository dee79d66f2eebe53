"""The software page table: a hotness for each page that holds tracked objects (EMT, section 6).

Unlike the kernel's, it has only pages in which a sampled object or access was found. This class is
plain Python, for objects that are sampled one by one. The extension's `Table` does the same for
whole pages, without the interpreter's lock, and tests check that both give the same answers.

>>> table = PageTable(page_size=4096)
>>> table.see({4096: 3.0, 4100: 4.0, 8000: 3.0})
>>> table.hotness(4096)
5.0
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tierwise.emt.policy.buckets import BUCKETS, Histogram, bucket

from ..representation import Representation
from ..representation.summed import summed
from .cooling import DEFAULT_K, cooled

#: Limit of counted cold samplings in a row. No demotion rule needs more, and the extension stores
#: the count in a byte.
MAX_COLD = 255
#: A page that did not move is skipped for a round, and twice as long each time, up to 2^6 rounds:
#: 16 seconds at the default interval.
MAX_REFUSALS = 6
#: The multiplier of Fibonacci hashing.
_LOTS = 0x9E3779B97F4A7C15


def lot(address: int) -> int:
    """Returns the rank of a page among equally hot ones, which is independent of its neighbours'
    ranks."""
    return (address >> 12) * _LOTS >> 32 & 0xFFFFFFFF


@dataclass(slots=True)
class Page:
    """The state of a page."""

    hotness: float = 0.0
    fast: bool = True
    cold_samplings: int = 0
    sampled: bool = False
    """True if it was sampled since it was last judged."""
    refusals: int = 0
    """Requested moves in a row that failed."""
    rests: int = 0
    """Rounds in which no move is requested."""


class PageTable:
    """Pages by address."""

    def __init__(
        self, page_size: int, representation: Representation = summed, k: float = DEFAULT_K
    ) -> None:
        self._page_size = page_size
        self._representation = representation
        self._k = k
        self._pages: dict[int, Page] = {}

    def __len__(self) -> int:
        return len(self._pages)

    def see(self, objects: Mapping[int, float]) -> None:
        """Takes an interval's hotness of objects by address. All pages cool (equation 1), also
        those without any object."""
        of_page: defaultdict[int, list[float]] = defaultdict(list)
        for address, hotness in objects.items():
            of_page[address - address % self._page_size].append(hotness)
        self.see_pages(
            {address: self._representation(hotness) for address, hotness in of_page.items()}
        )

    def see_pages(self, pages: Mapping[int, float]) -> None:
        """Takes an interval's hotness of pages by address; all pages cool."""
        for address in pages:
            self._pages.setdefault(address, Page())
        for address, page in self._pages.items():
            page.sampled = True
            page.hotness = cooled(page.hotness, pages.get(address, 0.0), self._k)

    def hotness(self, address: int) -> float:
        """Returns the hotness of the page at an address; 0 if the page is not known."""
        page = self._pages.get(address)
        return page.hotness if page else 0.0

    def addresses(self) -> array[int]:
        """Returns the addresses of all pages, ascending."""
        return array("Q", sorted(self._pages))

    def place(self, addresses: Iterable[int], fast: bool) -> None:
        """Records the tier of pages."""
        for address in addresses:
            if page := self._pages.get(address):
                page.fast = fast
                page.refusals = 0

    def refuse(self, addresses: Iterable[int]) -> None:
        """Records pages that did not move: each is skipped for a round, and twice as long each
        time."""
        for address in addresses:
            if page := self._pages.get(address):
                # One more than the rounds of rest: the next round's judgement subtracts one.
                page.rests = (1 << page.refusals) + 1
                page.refusals = min(MAX_REFUSALS, page.refusals + 1)

    def forget(self, addresses: Iterable[int]) -> None:
        """Drops pages that were unmapped."""
        for address in addresses:
            self._pages.pop(address, None)

    def histogram(self) -> Histogram:
        """Pages by tier and bucket."""
        fast, slow = [0] * BUCKETS, [0] * BUCKETS
        for page in self._pages.values():
            (fast if page.fast else slow)[bucket(page.hotness)] += 1
        return Histogram(tuple(fast), tuple(slow))

    def judge(self, h: int) -> None:
        """Counts, for each page, the samplings in a row that found it below bucket h; lazy demotion
        uses this count."""
        for page in self._pages.values():
            cold = bucket(page.hotness) < h
            page.cold_samplings = min(MAX_COLD, page.cold_samplings + page.sampled) if cold else 0
            page.sampled = False
            page.rests = max(0, page.rests - 1)

    def coldest_fast(self, h: int, patience: int, limit: int) -> array[int]:
        """Returns the fast pages below bucket h that were cold in this many samplings in a row; the
        coldest first, then in random order."""
        found = [
            (page.hotness, lot(address), address)
            for address, page in self._pages.items()
            if page.fast
            and not page.rests
            and page.cold_samplings >= patience
            and bucket(page.hotness) < h
        ]
        return array("Q", [address for *_, address in sorted(found)[:limit]])

    def hottest_slow(self, h: int, limit: int) -> array[int]:
        """Returns the slow pages in bucket h and above; the hottest first, then in random order."""
        found = [
            (-page.hotness, lot(address), address)
            for address, page in self._pages.items()
            if not page.fast and not page.rests and bucket(page.hotness) >= h
        ]
        return array("Q", [address for *_, address in sorted(found)[:limit]])
