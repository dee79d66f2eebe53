"""Statistics of a run."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts are since the start, unless noted otherwise; pages are of 4 KiB."""

    active: bool = False
    """True if tracking is on."""
    reason: str = ""
    """The reason why it is not, or the failure."""
    signal: str = ""
    intervals: int = 0
    rested: int = 0
    """Intervals that were left out to stay within the budget."""
    pages_tracked: int = 0
    """Known now."""
    pages_hot: int = 0
    """In and above the bucket that the last round of migration found to be the threshold; of those
    known now. Without slow nodes: touched of the last interval's tested."""
    promoted: int = 0
    demoted: int = 0
    failed: int = 0
    """Pages whose requested move failed."""
    threshold: int = 0
    """The last round's bucket, 0 to 10."""
    eagerness: float = 0.0
    eagerness_source: str = ""
    """The source of the eagerness: "counters" or "hot-slow-pages"."""
    faults: int = 0
    fault_s: float = 0.0
    """Processor seconds that faults cost the program: their number times what one was calibrated to
    cost."""
    thread_s: float = 0.0
    """Processor seconds of the tracking thread."""
    overhead: float = 0.0
    """Both, as a share of the program's own CPU time."""
    setup_s: float = 0.0
    """Time for which the call that started tracking held up its caller."""
    memory_bytes: int = 0
    """The memory that tracking takes."""
