"""The memory that the program has placed itself, and that tracking leaves there."""

from __future__ import annotations

import itertools
from _weakref import ref
from array import array
from typing import Any

from .buffers import Range, merged, owner_of
from .heaps import HEAPS


class Held:
    """Ranges by the object that their memory ends with.

    >>> class Owner: pass
    >>> held, owner = Held(), Owner()
    >>> held.add(owner, [(4096, 8192)]), list(held.ranges())
    (True, [4096, 8192])
    >>> held.add(owner, [(4096, 6144)], slow=True), held.slow()
    (True, [(4096, 6144)])
    >>> del owner
    >>> list(held.ranges())
    []
    """

    def __init__(self) -> None:
        self._ranges: dict[int, list[Range]] = {}
        # Those of them that were placed in the slow tier.
        self._slow: dict[int, list[Range]] = {}
        self._references: dict[int, ref[Any]] = {}

    def add(self, thing: object, ranges: list[Range], slow: bool = False) -> bool:
        """Holds ranges, in the slow tier or in the fast one, until the object that owns them ends.
        Returns false if that cannot be known: then nothing is held, because the memory may be
        another object's later."""
        owner = owner_of(thing)
        key = id(owner)
        if key not in self._references:
            try:
                # The collector may run it in any thread. It only takes items out of dicts, each in
                # one step.
                self._references[key] = ref(owner, lambda _: self._forget(key))
            except TypeError:
                return False
        self._ranges[key] = merged([*self._ranges.get(key, []), *ranges])
        self._slow[key] = _without(self._slow.get(key, []), ranges)
        if slow:
            self._slow[key] = merged([*self._slow[key], *ranges])
        return True

    def remove(self, thing: object, ranges: list[Range]) -> None:
        """Holds these ranges no longer; those of the object's other views stay held."""
        key = id(owner_of(thing))
        left = _without(self._ranges.get(key, []), ranges)
        if left:
            self._ranges[key] = left
            self._slow[key] = _without(self._slow.get(key, []), ranges)
        else:
            self._forget(key)

    def ranges(self) -> array[int]:
        """Returns the starts and ends of all ranges, ascending."""
        placed = [one for ranges in list(self._ranges.values()) for one in ranges]
        together = merged([*placed, *HEAPS.held()])
        return array("Q", itertools.chain.from_iterable(together))

    def slow(self) -> list[Range]:
        """Returns the ranges that were placed in the slow tier."""
        return merged([one for ranges in list(self._slow.values()) for one in ranges])

    def _forget(self, key: int) -> None:
        self._ranges.pop(key, None)
        self._slow.pop(key, None)
        self._references.pop(key, None)


def _without(ranges: list[Range], taken: list[Range]) -> list[Range]:
    for start, end in taken:
        parts = (((low, min(high, start)), (max(low, end), high)) for low, high in ranges)
        ranges = merged([part for pair in parts for part in pair if part[0] < part[1]])
    return ranges


HELD = Held()
