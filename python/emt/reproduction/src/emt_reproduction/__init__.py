"""EMT ("Efficient Memory Tiering" for Python) as the paper has it, on top of tierwise.emt.

    import emt_reproduction

    with emt_reproduction.tiering("growth", slow_nodes=[1], mem_pressure="1GiB") as t:
        work()
    print(t.stats())

It adds what the paper has and does not pay for a user: signals of objects, found by the allocator's
pools or by recursive marking, a linear model of their samples, four representations of a page's
hotness, and eagerness by hardware counters. tierwise.emt has the thread, the page table, the
threshold, demotion and moves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import tierwise.emt as emt
from tierwise.emt.errors import Unavailable
from tierwise.emt.policy.eagerness import Reading
from tierwise.emt.process import PROCESS
from tierwise.emt.settings import Settings
from tierwise.emt.signals import Signal
from tierwise.emt.support import free_threaded
from tierwise.emt.tracking import Parts

from ._objects import GROWTH_BUILD_ID
from .counters import Counters, open_counters
from .marked_objects import MarkedObjects
from .pool_objects import PoolObjects
from .representation import REPRESENTATIONS

__all__ = ["EMT", "OBJECTS", "SIGNALS", "PaperParts", "make_signal", "start", "tiering"]

SIGNALS = ("growth", "refdelta")
OBJECTS = ("pools", "marking")


def make_signal(signal: str, objects: str = "pools", representation: str = "summed") -> Signal:
    """Creates a signal of objects.

    Raises:
        Unavailable: This interpreter does not support it; the text has the reason.
        ValueError: A name is not allowed.
    """
    for name, value, allowed in (
        ("signal", signal, SIGNALS),
        ("objects", objects, OBJECTS),
        ("representation", representation, tuple(REPRESENTATIONS)),
    ):
        if value not in allowed:
            raise ValueError(f"{name} is {value!r}; allowed: {', '.join(allowed)}")
    if representation != "summed" and objects != "marking":
        raise ValueError(
            f"representation is {representation!r} with objects={objects!r}; "
            "allowed: with objects='marking'"
        )
    if free_threaded():
        raise Unavailable(
            f"{signal}: a free-threaded interpreter has no pools of objects; only pages can be "
            "tracked, by tierwise.emt"
        )
    if objects == "marking":
        return MarkedObjects(signal, representation)
    return PoolObjects(signal)


class PaperParts(Parts):
    """The paper's signal, and its eagerness by counters where the machine has them."""

    def __init__(self, signal: str, objects: str = "pools", representation: str = "summed") -> None:
        self._names = (signal, objects, representation)
        self._counters = Counters()

    def signal(self, settings: Settings) -> Signal:
        """Creates the signal of objects."""
        signal = make_signal(*self._names)
        if settings.slow_nodes:
            self._counters = open_counters()
        return signal

    def reading(self, slow_hot: float) -> Reading:
        """Returns the counters of the last round's time; `slow_hot` where there are none."""
        return self._counters.read(slow_hot)

    def close(self) -> None:
        """Closes the counters."""
        self._counters.close()


def start(
    signal: str = "growth",
    objects: str = "pools",
    representation: str = "summed",
    settings: Settings | None = None,
    callback: Callable[[emt.Stats], None] | None = None,
) -> None:
    """Starts tracking with a signal of objects; tierwise.emt's `end` ends it.

    Raises:
        AlreadyTracking: Tracking is already on.
        Unavailable: This interpreter, process or machine does not allow it.
        ValueError: An argument is not allowed.
    """
    PROCESS.start(settings or Settings(), callback, PaperParts(signal, objects, representation))


@contextlib.contextmanager
def tiering(
    signal: str = "growth",
    objects: str = "pools",
    representation: str = "summed",
    callback: Callable[[emt.Stats], None] | None = None,
    **settings: object,
) -> Iterator[emt.Tiering]:
    """Tracks and tiers while its block runs; `settings` are those of tierwise.emt."""
    start(signal, objects, representation, Settings(**settings), callback)  # type: ignore[arg-type]
    try:
        yield emt.Tiering()
    finally:
        # The block may have ended it already.
        with contextlib.suppress(emt.NotTracking):
            emt.end()


def nodes_of_mask(mask: int) -> tuple[int, ...]:
    """Returns the nodes of the paper's mask (listing 1): bit n is node n.

    >>> nodes_of_mask(0b110)
    (1, 2)
    """
    if type(mask) is not int or not 0 <= mask < 1 << 64:
        raise ValueError(f"mask is {mask!r}; allowed: a bit for each of 64 nodes")
    return tuple(node for node in range(64) if mask >> node & 1)


class EMT:
    """The paper's interface (listing 1)."""

    @staticmethod
    def start(mask: int, mem_pressure: int | str, sample_interval: float) -> None:
        """Demotes to the nodes of a mask (bit n is node n), to promote pages and leave mem_pressure
        free on the others. `sample_interval` is in seconds.

        It uses the growth counter on an interpreter that has it, and else tierwise.emt's own
        signal, which sees at least as many uses.
        """
        settings = Settings(
            slow_nodes=nodes_of_mask(mask),
            mem_pressure=mem_pressure,
            sample_interval=sample_interval,
        )
        if GROWTH_BUILD_ID:
            start("growth", settings=settings)
        else:
            emt.start(settings)

    @staticmethod
    def end() -> emt.Stats:
        """Ends tracking."""
        return emt.end()
