"""Places the data of an object in a tier, by its addresses."""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .buffers import Range, ranges_of
from .errors import Unavailable, Unplaceable
from .held import HELD
from .native import NativeKernel
from .policy.moving import BATCH_PAGES, BatchMover, Kernel
from .settings import bytes_of, mask_of_nodes, nodes_of
from .support import extension
from .topology import PAGE_BYTES, Topology, tiers

TIERS = ("fast", "slow", "auto")


class Placement(NamedTuple):
    """The pages of an object's data after they were placed."""

    pages: int
    """Pages that are wholly the object's; the others have data of others too, and stay."""
    there: int
    """Those in the tier now."""
    absent: int
    """Those without memory yet: the kernel places them when they are first used."""
    held: bool
    """True if tracking leaves them there as long as the object exists. It cannot for objects
    without weak references, such as bytearray and bytes."""

    @property
    def elsewhere(self) -> int:
        """Pages that did not move: the tier is full, or the kernel or another process uses them."""
        return self.pages - self.there - self.absent


def place(thing: object, tier: str, topology: Topology, kernel: Kernel | None = None) -> Placement:
    """Moves the data of an object to the nodes of a tier, and holds it there; see
    `tierwise.emt.place`."""
    ranges = ranges_of(thing)
    if tier == "auto":
        HELD.remove(thing, ranges)
        return Placement(0, 0, 0, False)
    pages = pages_of(thing, ranges)
    there, absent = move(pages, tier == "fast", topology, kernel or NativeKernel())
    return Placement(len(pages), there, absent, HELD.add(thing, ranges, tier == "slow"))


def pages_of(thing: object, ranges: list[Range]) -> array[int]:
    """Returns the addresses of the pages that are wholly an object's.

    Raises:
        Unplaceable: There are none.
    """
    pages = array("Q")
    for start, end in ranges:
        pages.frombytes(extension().own_pages(start, end))
    if not pages:
        size = sum(end - start for start, end in ranges)
        raise Unplaceable(
            f"the data of this {type(thing).__name__} has {size} bytes and no page of its own; "
            f"allowed: data of {2 * PAGE_BYTES} bytes or more, which is not a part of a huge page"
        )
    return pages


def move(pages: array[int], fast: bool, topology: Topology, kernel: Kernel) -> tuple[int, int]:
    """Moves pages to a tier. Returns the numbers of those there afterwards and of those without
    memory.

    Raises:
        Unavailable: The kernel refuses the call.
    """
    nodes = topology.fast if fast else topology.slow
    mover = BatchMover(kernel, topology.fast, topology.slow)
    there = absent = 0
    for start in range(0, len(pages), BATCH_PAGES):
        batch = pages[start : start + BATCH_PAGES]
        try:
            found = kernel.nodes(batch)
            # The error of a page without memory is below zero.
            absent += sum(node < 0 for node in found)
            there += sum(node in nodes for node in found)
            others = [page for page, node in zip(batch, found) if node >= 0 and node not in nodes]
            there += len(mover.move(array("Q", others), fast))
        except OSError as error:
            raise Unavailable(f"move_pages: {error}") from error
    return there, absent


def where(thing: object, kernel: Kernel | None = None) -> dict[int, int]:
    """Returns the bytes of an object's pages by node; -1 stands for those without memory."""
    pages = pages_of(thing, ranges_of(thing))
    found: dict[int, int] = {}
    for start in range(0, len(pages), BATCH_PAGES):
        for node in (kernel or NativeKernel()).nodes(pages[start : start + BATCH_PAGES]):
            found[max(node, -1)] = found.get(max(node, -1), 0) + PAGE_BYTES
    return dict(sorted(found.items()))


def topology_of(
    tier: str, slow_nodes: Iterable[int], fast_nodes: Iterable[int], tracked: Topology | None
) -> Topology:
    """Returns the nodes of the tiers: the arguments', else those of the tracking that is on.

    Raises:
        Unavailable: A node does not exist, or there is no slow node for the slow tier.
        ValueError: The tier is not one of `TIERS`.
    """
    if tier not in TIERS:
        raise ValueError(f"tier is {tier!r}; allowed: {', '.join(TIERS)}")
    slow, fast = nodes_of("slow_nodes", slow_nodes), nodes_of("fast_nodes", fast_nodes)
    if tracked is not None and tracked.slow and not slow and not fast:
        return tracked
    if tier == "slow" and not slow:
        raise Unavailable(
            "there is no slow node; name slow_nodes, or start tracking with slow_nodes"
        )
    return tiers(slow, fast)


@contextlib.contextmanager
def allocating(tier: str, topology: Topology, at_least: int | str) -> Iterator[None]:
    """Has NumPy allocate arrays on the nodes of a tier; see `tierwise.emt.allocating`."""
    if tier == "auto":
        raise ValueError("tier is 'auto'; allowed: fast, slow")
    nodes = topology.fast if tier == "fast" else topology.slow
    try:
        handler = extension().numpy_handler(mask_of_nodes(nodes), bytes_of(at_least))
    except OSError as error:
        raise Unavailable(f"mbind to nodes {nodes}: {error}") from error
    api = _numpy_api()
    before = extension().numpy_set_handler(api, handler)
    try:
        yield
    finally:
        extension().numpy_set_handler(api, before)


def _numpy_api() -> object:
    import numpy

    try:
        core = numpy._core  # type: ignore[attr-defined]
    except AttributeError:
        core = numpy.core
    return core._multiarray_umath._ARRAY_API
