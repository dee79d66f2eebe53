"""Hotness over time, for the heat map: one row per interval, up to a limit."""

from __future__ import annotations

from array import array
from typing import NamedTuple

#: Limit of rows. Beyond it neighbours are merged, so that a long run has coarser time. With 256
#: bins of 4 bytes each, the rows take half a megabyte.
MAX_ROWS = 512
BINS = 256
#: Bins that a report draws: each is two recorded ones, which limits the file to some hundred
#: kilobytes.
DRAWN_BINS = BINS // 2


class Row(NamedTuple):
    """The state at one time."""

    at_s: float
    """Seconds since the start."""
    pages: int
    """Pages known at that time."""
    heat: array[float]
    """Mean hotness of equal parts of the pages, by address."""


class History:
    """Rows in order of time.

    >>> history = History()
    >>> for second in range(600):
    ...     history.add(Row(float(second), 1, array("f", [1.0])))
    >>> len(history.rows) <= 512, history.rows[-1].at_s
    (True, 599.0)
    """

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def add(self, row: Row) -> None:
        """Adds the newest row."""
        if len(self.rows) >= MAX_ROWS:
            pairs = zip(self.rows[::2], self.rows[1::2], strict=True)
            self.rows = [_merged(first, second) for first, second in pairs]
        self.rows.append(row)


def _merged(first: Row, second: Row) -> Row:
    heat = array(
        "f", ((one + other) / 2 for one, other in zip(first.heat, second.heat, strict=True))
    )
    return Row(second.at_s, second.pages, heat)
