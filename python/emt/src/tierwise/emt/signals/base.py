"""The interface of signals."""

from __future__ import annotations

from array import array
from typing import NamedTuple, Protocol

from ..native import NativeTable


class Sampled(NamedTuple):
    """The result of sampling for an interval."""

    tested: int
    """Pages that were sampled; objects, for a signal of objects."""
    touched: int
    """The sampled pages that were found in use."""
    faults: int
    """Page faults that sampling caused."""
    fault_s: float
    """Seconds of CPU time that these faults cost the program."""


class Signal(Protocol):
    """Finds hot pages, and reports them to the table. The tracking thread calls all methods."""

    name: str

    def sample(self, table: NativeTable, interval_s: float, stop: int) -> Sampled:
        """Samples for an interval, or until the descriptor `stop` becomes readable. It does not
        hold the interpreter's lock meanwhile."""

    def adjust(self, cost_share: float, budget: float) -> None:
        """Reports the cost of the last interval, as a share of the program's time, and its
        budget."""

    def judged(self) -> array[int] | None:
        """Returns the types (addresses) whose objects' pages may be found idle if no use is
        reported. None: all pages, because every use is reported."""

    def memory_bytes(self) -> int:
        """Returns the memory that the signal takes beside the table."""

    def close(self) -> None:
        """Removes all protection and releases everything. Calling it again does nothing."""
