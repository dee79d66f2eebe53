"""A round of migration: demotion frees memory, then hot pages are promoted (EMT, section 6).

It follows the paper's pipeline (figure 1): histogram, eagerness, threshold, demotion, promotion.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import NamedTuple, Protocol

from ..demotion import Demotion
from .buckets import Histogram
from .eagerness import Eagerness, Reading
from .moving import Mover
from .threshold import threshold

#: Limit of pages that a round moves each way: 64 MiB. A page takes one to two microseconds to move,
#: so a round at the default interval stays near 1 % of a CPU; the budget lowers it further.
MAX_MOVES = 16384


class Table(Protocol):
    """The methods of a page table that a round uses; see `native.NativeTable`."""

    def histogram(self) -> Histogram: ...
    def judge(self, h: int) -> None: ...
    def coldest_fast(self, h: int, patience: int, limit: int) -> array[int]: ...
    def hottest_slow(self, h: int, limit: int) -> array[int]: ...
    def place(self, addresses: array[int], fast: bool) -> None: ...
    def refuse(self, addresses: array[int]) -> None: ...


class Round(NamedTuple):
    """The result of a round; counts are of pages."""

    threshold: int
    eagerness: float
    eagerness_source: str
    patience: int
    hot: int
    """Pages in bucket `threshold` and above, of both tiers."""
    promoted: int
    demoted: int
    failed: int
    """Pages whose move was requested and that are not in the target tier."""


class Migration:
    """The rounds of a run."""

    def __init__(
        self,
        table: Table,
        mover: Mover,
        demotion: Demotion,
        reserve_pages: int,
        make_way: Callable[[int], int] = lambda pages: 0,
    ) -> None:
        """Promotions leave `reserve_pages` of the fast tier free: the mem_pressure of the paper's
        listing 1. `make_way` frees so many pages that are known to be cold, if there are some, and
        returns the number that it freed."""
        self._make_way = make_way
        self._table = table
        self._mover = mover
        self._demotion = demotion
        self._reserve = reserve_pages
        self._eagerness = Eagerness()
        self._eagerness_before = 0.0

    def round(self, reading: Reading, free_fast_pages: int, max_moves: int = MAX_MOVES) -> Round:
        """Moves pages both ways, at most `max_moves` each way."""
        histogram = self._table.histogram()
        eagerness = self._eagerness.total(histogram.fast_share(), reading)
        h = threshold(histogram, eagerness, self._eagerness_before)
        self._eagerness_before = eagerness
        self._table.judge(h)
        patience = self._demotion.patience(eagerness)

        # Promotions leave the reserve. If the program itself has taken a part of it, pages are
        # exchanged: memory that no page needs to be promoted into is not worth a demotion.
        room = max(0, free_fast_pages - self._reserve)
        # The histogram does not serve here: it includes pages that do not move and need no memory.
        wanted = len(self._table.hottest_slow(h, max_moves))
        if wanted > room:
            room += self._make_way(wanted - room)
        missing = min(max(0, wanted - room), max_moves)
        demoted, not_demoted = self._move(
            self._table.coldest_fast(h, patience, missing), fast=False
        )
        coming = min(wanted, room + demoted)
        promoted, not_promoted = self._move(self._table.hottest_slow(h, coming), fast=True)
        return Round(
            threshold=h,
            eagerness=eagerness,
            eagerness_source=reading.source,
            patience=patience,
            hot=histogram.hotter_in_slow(h) + sum(histogram.fast[h:]),
            promoted=promoted,
            demoted=demoted,
            failed=not_demoted + not_promoted,
        )

    def _move(self, addresses: array[int], fast: bool) -> tuple[int, int]:
        """Moves pages to a tier. Returns the number of pages in the tier afterwards, and that of
        the others."""
        arrived = self._mover.move(addresses, fast)
        self._table.place(arrived, fast)
        there = set(arrived)
        self._table.refuse(array("Q", [address for address in addresses if address not in there]))
        return len(arrived), len(addresses) - len(arrived)
