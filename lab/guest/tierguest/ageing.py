"""Placement by age alone, like memtierd's policy "age": a baseline for policies that consider more.

Each round demotes memory that was not accessed for some time, and promotes memory that was accessed
recently, by move_pages. It considers neither how often a page is accessed nor which other processes
need the fast node. memtierd's trackers are DAMON, the idle-page bitmap, which Debian's cloud
kernels lack, and soft-dirty bits, which report only stores. This baseline uses DAMON.

    Ageing(guest.damon(stairs.pid)).run(30)
"""

import ctypes
import errno
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .damon import AGGREGATE_US, Damon, Region
from .placement import Range

PAGE_BYTES = 4096
# asm/unistd_64.h and linux/mempolicy.h.
SYS_MOVE_PAGES = 279
MPOL_MF_MOVE = 2
# Pages per call: two milliseconds of copying, so that no call delays the program for long.
PAGES_PER_CALL = 512

# Errors for a full node and for pages in use; the next round tries again.
LATER = (errno.ENOMEM, errno.EBUSY)

# A function that moves these pages of a process to a node. It returns false if further moves to the
# node would fail now.
Move = Callable[[int, Sequence[int], int], bool]


@dataclass(frozen=True)
class Ages:
    """Ages in seconds from which a page is idle. memtierd's examples use tens of seconds; tests use
    fewer."""

    idle_s: float = 3.0
    interval_s: float = 1.0


@dataclass(frozen=True)
class Decision:
    """Ranges of addresses to move: (address, bytes)."""

    demote: list[Range]
    promote: list[Range]


def decide(regions: Sequence[Region], ages: Ages, aggregate_s: float) -> Decision:
    """Demotes regions that were idle for long and promotes those that the last check found
    accessed. The others stay.

    The age of a region is the time since the last large change of its count. It does not measure
    for how long the region has been active.
    """
    demote, promote = [], []
    for region in regions:
        seconds = region.age * aggregate_s
        piece = (region.start, region.end - region.start)
        if region.accesses == 0 and seconds >= ages.idle_s:
            demote.append(piece)
        elif region.accesses > 0:
            promote.append(piece)
    return Decision(demote, promote)


class Ageing:
    """Places the pages of the process that a running DAMON monitors; `move` is move_pages."""

    def __init__(
        self,
        damon: Damon,
        ages: Ages = Ages(),
        aggregate_us: int = AGGREGATE_US,
        fast: int = 0,
        slow: int = 1,
        move: Move | None = None,
    ) -> None:
        self.damon = damon
        self.ages = ages
        self._aggregate_s = aggregate_us / 1e6
        self._nodes = (fast, slow)
        self._move = move or move_pages

    def round(self) -> Decision:
        """Checks, decides and moves once: demotions first, so that there is free memory. Returns
        the decision."""
        decision = decide(self.damon.regions(), self.ages, self._aggregate_s)
        fast, slow = self._nodes
        for ranges, node in ((decision.demote, slow), (decision.promote, fast)):
            for batch in batches(ranges):
                if not self._move(self.damon.pid, batch, node):
                    break
        return decision

    def run(self, for_s: float) -> None:
        """Runs rounds for this many seconds."""
        end = time.monotonic() + for_s
        while time.monotonic() < end:
            self.round()
            time.sleep(self.ages.interval_s)


def batches(ranges: Sequence[Range]) -> list[list[int]]:
    """Returns the addresses of the ranges' pages, in batches of at most PAGES_PER_CALL."""
    pages = [
        page
        for start, size in ranges
        for page in range(start // PAGE_BYTES * PAGE_BYTES, start + size, PAGE_BYTES)
    ]
    return [pages[first : first + PAGES_PER_CALL] for first in range(0, len(pages), PAGES_PER_CALL)]


def move_pages(pid: int, pages: Sequence[int], node: int) -> bool:
    """Calls move_pages(2). Pages that cannot move (not present, no free memory) stay, and the next
    round tries them again. Returns false if the node is full."""
    count = len(pages)
    addresses = (ctypes.c_void_p * count)(*pages)
    nodes = (ctypes.c_int * count)(*([node] * count))
    status = (ctypes.c_int * count)()
    call = ctypes.CDLL(None, use_errno=True).syscall
    if call(SYS_MOVE_PAGES, pid, ctypes.c_ulong(count), addresses, nodes, status, MPOL_MF_MOVE) < 0:
        error = ctypes.get_errno()
        if error in LATER:
            return False
        raise OSError(error, f"move_pages of process {pid}: {os.strerror(error)}")
    return True
