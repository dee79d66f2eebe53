"""The interface of signals."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Protocol

from ..native import NativeTable


@dataclass(frozen=True, slots=True)
class Looked:
    """What looking for an interval came to."""

    tested: int
    """Pages (or objects) that were looked at."""
    touched: int
    """Of those, found in use."""
    faults: int
    """Page faults that looking caused."""
    fault_s: float
    """Seconds of CPU time that they cost the program."""


class Signal(Protocol):
    """Sees what is hot, and tells the table. All methods are called by the tracking thread."""

    name: str

    def look(self, table: NativeTable, interval_s: float, stop: int) -> Looked:
        """Watches for an interval, or until the descriptor `stop` becomes readable. Holds no lock
        of the interpreter meanwhile."""

    def adjust(self, cost_share: float, budget: float) -> None:
        """Says what the last interval cost, as a share of the program's time, and what it may."""

    def judged(self) -> array[int] | None:
        """What may be found idle because nothing was seen: pages of objects of these types
        (addresses). None: all pages, every use is seen."""

    def memory_bytes(self) -> int:
        """What it takes beside the table."""

    def close(self) -> None:
        """Takes all protection away and gives everything back. Calling it again does nothing."""
