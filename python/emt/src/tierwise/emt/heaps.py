"""Two heaps for Python's objects, one for each tier: objects that are used alike share pages.

The extension hooks the interpreter's allocators (csrc/hooking.h). They stay hooked until the
process ends, because objects of the heaps live as long as anything refers to them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from .errors import Unavailable
from .settings import mask_of_nodes
from .support import extension, free_threaded
from .topology import Topology

if TYPE_CHECKING:
    from ._emt import HeapBlock

#: The numbers of the extension.
HEAP_TIERS = {"cold": 1, "hot": 2}

Sites = Mapping[tuple[str, int], int]


class HeapUse(NamedTuple):
    """The use of a heap."""

    start: int
    end: int
    """Addresses: all its blocks are between them."""
    used: int
    """Bytes of blocks in use, rounded to their size classes."""
    limit: int
    """The end of the addresses that are reserved for it."""
    fast_end: int
    """The end of the addresses that prefer the fast nodes: all of the hot heap's, those of the cold
    one that borrow fast memory, and none without nodes."""


class Heaps:
    """The heaps of this process."""

    def __init__(self) -> None:
        self._started = False
        self._bound = False

    @property
    def on(self) -> bool:
        """True if the allocators are hooked, also by another copy of this module."""
        return self._started or (not free_threaded() and bool(extension().heap_ranges()))

    def start(
        self,
        topology: Topology | None,
        sites: Sites | bool | None = None,
        reserve_bytes: int = 0,
    ) -> None:
        """Hooks the allocators. Without slow nodes the kernel places the heaps' pages, of which
        each is then wholly cold or wholly hot. With them the cold heap borrows the fast memory
        that is free beyond `reserve_bytes`, and makes way when other memory grows.

        `sites` are allocation sites whose blocks go to a heap; True is for a recording.

        Raises:
            Unavailable: It is not possible here, or was done already; the text has the reason.
        """
        if self.on:
            raise Unavailable("the heaps are there already; start them once, with their nodes")
        if free_threaded():
            raise Unavailable(
                "a free-threaded interpreter finds its objects in its own allocator's heaps, and "
                "allows no others"
            )
        native = extension()
        import _tracemalloc

        if _tracemalloc.is_tracing():
            raise Unavailable(
                "tracemalloc is on, and would unhook the heaps at its end; allowed: to start it "
                "after them"
            )
        cold = hot = reserve = 0
        if topology is not None and topology.slow:
            cold, hot = mask_of_nodes(topology.slow), mask_of_nodes(topology.fast)
            reserve = reserve_bytes + topology.kept_bytes()
        known = dict(sites) if isinstance(sites, Mapping) else sites
        try:
            native.heaps_start(cold, hot, known, reserve)
        except OSError as error:
            raise Unavailable(f"the heaps have no addresses or no nodes: {error}") from error
        except RuntimeError as error:
            raise Unavailable(str(error)) from error
        self._started, self._bound = True, cold != 0

    def use(self) -> dict[str, HeapUse]:
        """Returns the use of the heaps, by their names."""
        ranges = extension().heap_ranges()
        if not ranges:
            return {}
        return {name: HeapUse(*found) for name, found in zip(HEAP_TIERS, ranges, strict=True)}

    def follow(self, wanted: int, room_bytes: int | None) -> None:
        """Has the cold heap borrow free fast memory, or make way for `wanted` bytes. The process
        may take at most `room_bytes` more; None: nothing limits it."""
        if self._bound:
            extension().heaps_follow(wanted, -1 if room_bytes is None else room_bytes)

    def swap(self) -> None:
        """Binds the heap on the slow nodes to the fast ones, and the other to the slow ones, with
        their pages."""
        extension().heaps_swap()

    def slow_and_fast(self) -> tuple[HeapUse, HeapUse] | None:
        """Returns the heap on the slow nodes and the one on the fast ones; None without nodes."""
        if not self._bound:
            return None
        # The one on the slow nodes has only borrowed some of its addresses.
        slow, fast = sorted(self.use().values(), key=lambda heap: heap.fast_end == heap.limit)
        return slow, fast

    def held(self) -> list[tuple[int, int]]:
        """Returns the ranges that tracking leaves where they are: the cold heap's, if it has
        nodes, without what it borrows. The hot heap's pages may be on a slow node because the fast
        ones were full."""
        return self._slow(lambda cold: cold.end)

    def bound_slow(self) -> list[tuple[int, int]]:
        """Returns the addresses that are bound to slow nodes, also those that are not in use
        yet."""
        return self._slow(lambda cold: cold.limit)

    def _slow(self, end_of: Callable[[HeapUse], int]) -> list[tuple[int, int]]:
        heaps = self.slow_and_fast()
        if heaps is None:
            return []
        start, end = heaps[0].fast_end, end_of(heaps[0])
        return [(start, end)] if end > start else []


HEAPS = Heaps()


def block(tier: str) -> HeapBlock:
    """Returns a `with` block, whose thread makes new objects in a heap; blocks may be nested, and
    used again."""
    made: HeapBlock = extension().HeapBlock(HEAP_TIERS[tier])
    return made
