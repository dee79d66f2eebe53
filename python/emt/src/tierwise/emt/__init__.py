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

# First, because its clock starts with it: the time of the imports below is charged to the budget.
from .imported import import_s  # isort: split

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from . import placing
from .errors import AlreadyTracking, EmtError, NotTracking, Unavailable, Unplaceable
from .heaps import HEAP_TIERS, HEAPS, HeapUse, block
from .metrics import open_metrics
from .placing import Placement
from .process import PROCESS
from .settings import Settings, bytes_of
from .sharing import SHARING, Entitlement
from .stats import Stats
from .support import extension

T = TypeVar("T")

__all__ = [
    "AlreadyTracking",
    "EmtError",
    "Entitlement",
    "HeapUse",
    "NotTracking",
    "Placement",
    "Settings",
    "Stats",
    "Tiering",
    "Unavailable",
    "Unplaceable",
    "allocating",
    "cold",
    "end",
    "heap_of",
    "heaps",
    "hot",
    "open_metrics",
    "place",
    "rebuilt",
    "report",
    "segregate",
    "share",
    "start",
    "stats",
    "tiering",
    "where",
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
    """Writes a report of the tracking that is on, or was last; the end of the name is its format:

    - .html has the heat map, the types of hot pages, and cold memory by owner, allocation site and
      type, with a flame graph; .png has the heat map (needs matplotlib);
    - .txt has the tables of cold memory for a terminal, .json for programs, and .folded the stacks
      for programs that draw flame graphs.

    Allocation sites are known of objects that were allocated while `tracemalloc` was on.

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

    draw(path, tracking.history, tracking.stats(), tracking.contents, tracking.coldness)


def place(
    thing: object, tier: str, *, slow_nodes: Sequence[int] = (), fast_nodes: Sequence[int] = ()
) -> Placement:
    """Moves the data of an object to the "fast" or the "slow" tier, and tells tracking to leave it
    there; "auto" leaves it to tracking again.

        place(embeddings, "slow", slow_nodes=[1])

    The object is a NumPy array, a tensor in the CPU's memory, a buffer, an array or a table of
    pyarrow, or one with the buffer protocol. Its pages move, as far as no other data is on them;
    views of the same memory move with it. The nodes are those of the tracking that is on, if none
    are named. `allocating` places arrays before they are filled.

    Raises:
        Unplaceable: The object has no such data; the text has the reason.
        Unavailable: A node does not exist, or the kernel refuses to move pages.
        ValueError: The tier is none of the three.
    """
    topology = placing.topology_of(tier, slow_nodes, fast_nodes, PROCESS.topology())
    placed = placing.place(thing, tier, topology)
    SHARING.tell()
    return placed


def share(socket: str | os.PathLike[str]) -> Entitlement:
    """Shares with the daemon `tierwised`, at its socket for tenants (`control.tenants`), from now
    on, and returns what it says of this process's tenant.

        print(emt.share("/run/tierwise-tenants/socket").room_bytes)

    The daemon hears which memory `place` and the cold heap have put in the slow tier, and does not
    promote it. Tracking, and a profile's heaps, take no more of the fast tier than the tenant's
    share or cap. `place` and `segregate` tell the daemon at once, tracking every ten seconds; a
    daemon that was restarted hears it from the next of these, or from another call of this.

    Raises:
        Unavailable: No daemon answers there, or this process belongs to no tenant.
    """
    return SHARING.start(os.fspath(socket))


def where(thing: object) -> dict[int, int]:
    """Returns the bytes of an object's data by memory node; -1 stands for memory that was never
    used. Pages that also have data of others do not count.

    Raises:
        Unplaceable: The object has no data that `place` could move.
    """
    return placing.where(thing)


def allocating(
    tier: str,
    *,
    at_least: int | str = "1MiB",
    slow_nodes: Sequence[int] = (),
    fast_nodes: Sequence[int] = (),
) -> contextlib.AbstractContextManager[None]:
    """Has NumPy allocate the arrays of a block in a tier, if they have `at_least` so many bytes.

        with allocating("slow", slow_nodes=[1]):
            table = numpy.empty((10_000_000, 64), dtype="f4")

    Their pages come from the tier's nodes when they are first used, and from other nodes when
    these are full. It holds in this thread and context (NEP 49). An array keeps its memory after
    the block.

    Raises:
        Unavailable: A node does not exist, or the kernel refuses the policy.
        ValueError: The tier is neither "fast" nor "slow".
    """
    topology = placing.topology_of(tier, slow_nodes, fast_nodes, PROCESS.topology())
    return placing.allocating(tier, topology, at_least)


def segregate(
    slow_nodes: Sequence[int] = (),
    *,
    fast_nodes: Sequence[int] = (),
    profile: str | os.PathLike[str] | None = None,
    mem_pressure: int | str = 0,
    overhead_budget: float = 0.02,
) -> None:
    """Gives this process a cold and a hot heap for its objects, for `cold`, `hot`, and a profile of
    allocation sites that `python -m tierwise.emt profile` wrote.

    The cold heap's memory comes from the slow nodes, the hot heap's from the fast ones, and from
    others when those are full. While the fast nodes have more than `mem_pressure` free, the cold
    heap borrows from them, and makes way when other memory of the process grows. Without nodes,
    those of the tracking that is on; without tracking the kernel places the heaps. The profile's
    hottest lines are hot, as many as fit in the fast nodes' free memory less `mem_pressure`, and
    the others cold. A profile that promises too little chooses none, and so does one of a program
    that makes so many blocks that the heaps cost more than `overhead_budget`, a share of its CPU
    time.

    Raises:
        Unavailable: Not in this process: the heaps are there already, the interpreter has no lock,
            another tool has hooked its allocators, or a node does not exist; or there is no such
            profile.
    """
    wanted = "slow" if slow_nodes or fast_nodes else "fast"
    topology = placing.topology_of(wanted, slow_nodes, fast_nodes, PROCESS.topology())
    reserve = bytes_of(mem_pressure)
    if profile is None:
        HEAPS.start(topology, reserve_bytes=reserve)
    else:
        # Imported here: most programs have no profile.
        from .profile import tiers_for

        sites = tiers_for(profile, topology, reserve, overhead_budget)
        HEAPS.start(topology, sites, reserve)
    SHARING.tell()


def cold() -> contextlib.AbstractContextManager[object]:
    """Has this thread make new objects in the cold heap, in a `with` block.

        emt.segregate(slow_nodes=[1])
        with emt.cold():
            archive = load()

    It concerns every block that the interpreter's allocators give in between, also of objects that
    end soon. Objects return to the heap that they came from, whenever they end. The block must not
    yield or await: the setting is the thread's. Objects that the interpreter takes from its free
    lists have memory of a time before.

    Raises:
        Unavailable: As `segregate`, which it calls unless that was done.
    """
    return _block("cold")


def hot() -> contextlib.AbstractContextManager[object]:
    """As `cold`, in the hot heap."""
    return _block("hot")


def _block(tier: str) -> contextlib.AbstractContextManager[object]:
    if not HEAPS.on:
        segregate()
    return block(tier)


def heaps() -> dict[str, HeapUse]:
    """The use of the "cold" and the "hot" heap; empty if there are none."""
    return HEAPS.use()


def heap_of(thing: object) -> str | None:
    """Returns "cold", "hot", or None if no heap has the object. Its items may be elsewhere."""
    number = extension().heap_of(thing)
    return next((name for name, known in HEAP_TIERS.items() if known == number), None)


def rebuilt(thing: T, tier: str) -> T:
    """Returns a copy of a structure in the "cold" or the "hot" heap, for what was allocated before.

        cache.archive = emt.rebuilt(cache.archive, "cold")

    It copies lists, dicts, sets, tuples and frozensets, and the strings, bytes and numbers in them.
    What cannot be moved stays, and the copy refers to it: instances of classes (of subclasses of
    these types too), functions, modules, interned strings, and objects of which the interpreter has
    one, such as small integers. Whoever refers to the original keeps it.

    Raises:
        Unavailable: As `cold`.
        ValueError: The tier is none of the two.
    """
    if tier not in HEAP_TIERS:
        raise ValueError(f"tier is {tier!r}; allowed: {', '.join(HEAP_TIERS)}")
    # Imported here: most programs rebuild nothing.
    from .rebuild import Rebuilding

    rebuilding = Rebuilding()
    with _block(tier):
        copied: T = rebuilding.copy(thing)
    return copied


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
