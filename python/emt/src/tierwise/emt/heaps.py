"""Two heaps for Python's objects, one for each tier: objects that are used alike share pages.

The extension hooks the interpreter's allocators (csrc/heaps.c). They stay hooked until the process
ends, because objects of the heaps live as long as anything refers to them.
"""

from __future__ import annotations

import _thread
from collections.abc import Mapping
from types import TracebackType
from typing import NamedTuple, Self

from .errors import Unavailable
from .settings import mask_of_nodes
from .support import extension, free_threaded
from .topology import Topology

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


class Heaps:
    """The heaps of this process."""

    def __init__(self) -> None:
        self._started = False
        self._bound = False

    @property
    def on(self) -> bool:
        """True if the allocators are hooked, also by another copy of this module."""
        return self._started or (not free_threaded() and bool(extension().heap_ranges()))

    def start(self, topology: Topology | None, sites: Sites | bool | None = None) -> None:
        """Hooks the allocators. Without slow nodes the kernel places the heaps' pages, of which
        each is then wholly cold or wholly hot.

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
        bound = topology is not None and bool(topology.slow)
        cold = mask_of_nodes(topology.slow) if topology is not None and bound else 0
        hot = mask_of_nodes(topology.fast) if topology is not None and bound else 0
        try:
            native.heaps_start(cold, hot, dict(sites) if isinstance(sites, Mapping) else sites)
        except OSError as error:
            raise Unavailable(f"the heaps have no addresses or no nodes: {error}") from error
        except RuntimeError as error:
            raise Unavailable(str(error)) from error
        self._started, self._bound = True, bound

    def use(self) -> dict[str, HeapUse]:
        """Returns the use of the heaps, by their names."""
        ranges = extension().heap_ranges()
        if not ranges:
            return {}
        return {name: HeapUse(*found) for name, found in zip(HEAP_TIERS, ranges, strict=True)}

    def held(self) -> list[tuple[int, int]]:
        """Returns the ranges that tracking leaves where they are: the cold heap's, if it has
        nodes. The hot heap's pages may be on a slow node because the fast ones were full."""
        cold = self.use().get("cold") if self._bound else None
        return [(cold.start, cold.end)] if cold is not None and cold.end > cold.start else []

    def bound_slow(self) -> list[tuple[int, int]]:
        """Returns the addresses that are bound to slow nodes, also those that are not in use
        yet."""
        cold = self.use().get("cold") if self._bound else None
        return [(cold.start, cold.limit)] if cold is not None else []


HEAPS = Heaps()


class Block:
    """A `with` block, whose thread makes new objects in a heap; blocks may be nested, and used
    again."""

    __slots__ = ("_before", "_native", "_tier")

    def __init__(self, tier: str) -> None:
        self._tier = HEAP_TIERS[tier]
        self._native = extension()
        # Settings before, of the blocks that are open, by their threads.
        self._before: dict[int, list[int]] = {}

    def __enter__(self) -> Self:
        before = self._native.heap_switch(self._tier)
        self._before.setdefault(_thread.get_ident(), []).append(before)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # A generator may be closed by another thread, whose setting is its own.
        if before := self._before.get(_thread.get_ident()):
            self._native.heap_switch(before.pop())
