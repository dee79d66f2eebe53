"""Moves pages in batches, and then verifies where they are.

move_pages reports a status for every page; a page may be in use by the kernel, shared, or unmapped,
and is not moved then. The nodes of the pages are queried again after the move, because a status of
success only means that the page was added to the kernel's list.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Protocol

#: Pages per call. The kernel copies 4 KiB of arguments at a time, and a call delays threads that
#: map memory meanwhile: by half a millisecond, at a microsecond per page.
BATCH_PAGES = 512


class Kernel(Protocol):
    """move_pages(2), on this process. Both return a node for each page, or an error number below
    zero."""

    def move(self, addresses: array[int], node: int) -> Sequence[int]: ...
    def nodes(self, addresses: array[int]) -> Sequence[int]: ...


class Mover(Protocol):
    """Moves pages to a tier, and returns those that are there afterwards."""

    def move(self, addresses: array[int], fast: bool) -> array[int]: ...


class BatchMover:
    """Moves pages between the nodes of two tiers, batch by batch."""

    def __init__(
        self, kernel: Kernel, fast_nodes: Sequence[int], slow_nodes: Sequence[int]
    ) -> None:
        """Pages move to the first node of a tier that accepts them."""
        self._kernel = kernel
        self._tiers = {True: tuple(fast_nodes), False: tuple(slow_nodes)}

    def move(self, addresses: array[int], fast: bool) -> array[int]:
        """Moves pages, and returns those on a node of the tier afterwards."""
        arrived: array[int] = array("Q")
        for start in range(0, len(addresses), BATCH_PAGES):
            left = addresses[start : start + BATCH_PAGES]
            for node in self._tiers[fast]:
                if left:
                    there, left = self._move_batch(left, node)
                    arrived += there
        return arrived

    def _move_batch(self, addresses: array[int], node: int) -> tuple[array[int], array[int]]:
        """Moves a batch to a node, and returns the pages on that node afterwards, and the
        others."""
        self._kernel.move(addresses, node)
        there: array[int] = array("Q")
        elsewhere: array[int] = array("Q")
        for address, found in zip(addresses, self._kernel.nodes(addresses), strict=True):
            (there if found == node else elsewhere).append(address)
        return there, elsewhere
