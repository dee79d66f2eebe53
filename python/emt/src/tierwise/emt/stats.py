"""Statistics of a run."""

from typing import NamedTuple


class Stats(NamedTuple):
    """Counts are since the start, unless noted otherwise; pages have 4 KiB."""

    active: bool = False
    """True if tracking is on."""
    reason: str = ""
    """The reason why tracking is not on, or the failure."""
    signal: str = ""
    intervals: int = 0
    rested: int = 0
    """Pauses, each at most an interval, to stay within the budget."""
    pages_tracked: int = 0
    """Pages that are known now."""
    pages_hot: int = 0
    """Known pages in and above the last round's threshold bucket. Without slow nodes: the touched
    ones of the pages tested in the last interval."""
    promoted: int = 0
    demoted: int = 0
    failed: int = 0
    """Pages whose requested move failed."""
    threshold: int = 0
    """The last round's threshold bucket, 0 to 10."""
    eagerness: float = 0.0
    eagerness_source: str = ""
    """The source of the eagerness: "counters" or "hot-slow-pages"."""
    faults: int = 0
    fault_s: float = 0.0
    """Seconds of CPU time that faults cost the program: their number times the calibrated cost of
    one."""
    thread_s: float = 0.0
    """Seconds of CPU time of the tracking thread."""
    overhead: float = 0.0
    """The whole cost to the program, of set-up, faults and thread, as a share of its own CPU
    time."""
    setup_s: float = 0.0
    """Seconds of CPU time of the import and of the call that started tracking."""
    memory_bytes: int = 0
    """Bytes that tracking takes."""
