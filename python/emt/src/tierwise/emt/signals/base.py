"""The interface of signals."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Protocol

from ..native import NativeTable


@dataclass(frozen=True, slots=True)
class Sampled:
    """The result of sampling for an interval."""

    tested: int
    """Pages (or objects) that were sampled."""
    touched: int
    """The sampled pages that were found in use."""
    faults: int
    """Page faults that sampling caused."""
    fault_s: float
    """Seconds of CPU time that they cost the program."""


class Signal(Protocol):
    """Finds hot pages, and reports them to the table. All methods are called by the tracking
    thread."""

    name: str

    def sample(self, table: NativeTable, interval_s: float, stop: int) -> Sampled:
        """Watches for an interval, or until the descriptor `stop` becomes readable. Holds no lock
        of the interpreter meanwhile."""

    def adjust(self, cost_share: float, budget: float) -> None:
        """Reports the cost of the last interval, as a share of the program's time, and its
        budget."""

    def judged(self) -> array[int] | None:
        """The types (addresses) whose objects' pages may be found idle without a reported use.
        None: all pages, because every use is reported."""

    def memory_bytes(self) -> int:
        """The memory that it takes beside the table."""

    def close(self) -> None:
        """Removes all protection and releases everything. Calling it again does nothing."""
