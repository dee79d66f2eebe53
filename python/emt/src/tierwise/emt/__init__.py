"""Learns which of this program's memory is hot, and keeps it in the fast memory tier.

    import tierwise.emt as emt

    with emt.tiering(
        slow_nodes=[1], mem_pressure="1GiB", sample_interval=0.25, overhead_budget=0.02
    ) as t:
        work()
    print(t.stats())

It is EMT ("Efficient Memory Tiering" for Python) on a stock CPython: no patch, no daemon, no root.
Without slow nodes it only tracks, which shows the pages that would move::

    with emt.tiering() as t:
        work()
    t.report("heat.html")

docs/emt.md describes how it works, what it costs and what it finds.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence

from .errors import AlreadyTracking, EmtError, NotTracking, Unavailable
from .imported import import_s
from .metrics import open_metrics
from .process import PROCESS
from .settings import Settings
from .stats import Stats

__all__ = [
    "AlreadyTracking",
    "EmtError",
    "NotTracking",
    "Settings",
    "Stats",
    "Tiering",
    "Unavailable",
    "end",
    "open_metrics",
    "report",
    "start",
    "stats",
    "tiering",
]


def start(
    settings: Settings | None = None, callback: Callable[[Stats], None] | None = None
) -> None:
    """Starts tracking, and tiering if the settings name slow nodes.

    `callback` gets the stats every few intervals, in the tracking thread; its time counts as
    overhead.

    Raises:
        AlreadyTracking: Tracking is already on.
        Unavailable: This process, kernel or machine does not allow it; the text has the reason.
        ValueError: An argument is not allowed.
    """
    if not isinstance(settings, Settings | None):
        raise ValueError(f"settings is {settings!r}; allowed: a Settings")
    if callback is not None and not callable(callback):
        raise ValueError(f"callback is {callback!r}; allowed: a function of the stats")
    PROCESS.start(settings or Settings(), callback)


def end() -> Stats:
    """Ends tracking; no page is protected any more. Returns the last stats.

    Raises:
        NotTracking: Tracking is not on.
    """
    return PROCESS.finish()


def stats() -> Stats:
    """The current statistics, or those at the end of tracking."""
    return PROCESS.stats()


def report(path: str | os.PathLike[str]) -> None:
    """Draws the heat map of the tracking that is on, or was last: a file that ends in .html, or in
    .png (needs matplotlib).

    Raises:
        NotTracking: There was none, or it was too short to draw.
        ValueError: The name has another ending.
        Unavailable: A PNG without matplotlib.
    """
    tracking = PROCESS.last()
    if tracking is None:
        raise NotTracking(f"there is nothing to report: {PROCESS.stats().reason}")
    # Imported here: most programs draw no report, and it costs as much as the rest of the package.
    from .heatmap import report as draw

    draw(path, tracking.history, tracking.stats(), tracking.contents)


class Tiering:
    """The object that `tiering` gives to its block."""

    def stats(self) -> Stats:
        """The current statistics, or those at the end of the block."""
        return stats()

    def report(self, path: str | os.PathLike[str]) -> None:
        """See `report`."""
        report(path)


@contextlib.contextmanager
def tiering(
    slow_nodes: Sequence[int] = (),
    *,
    fast_nodes: Sequence[int] = (),
    mem_pressure: int | str = "1GiB",
    sample_interval: float = 0.25,
    overhead_budget: float = 0.02,
    signal: str = "uffd-wp",
    demotion: str = "adaptive",
    callback: Callable[[Stats], None] | None = None,
) -> Iterator[Tiering]:
    """Tracks and tiers while its block runs; see `Settings` for the arguments.

    Raises:
        AlreadyTracking: Tracking is already on.
        Unavailable: This process, kernel or machine does not allow it; the text has the reason.
        ValueError: An argument is not allowed.
    """
    settings = Settings(
        slow_nodes=slow_nodes,
        fast_nodes=fast_nodes,
        mem_pressure=mem_pressure,
        sample_interval=sample_interval,
        overhead_budget=overhead_budget,
        signal=signal,
        demotion=demotion,
    )
    start(settings, callback)
    try:
        yield Tiering()
    finally:
        # The block may have ended it already.
        with contextlib.suppress(NotTracking):
            end()


PROCESS.import_s = import_s()
