"""Cold and hot memory by type, by allocation site and by owner.

A page is cold if no use of it was seen for a time. What a kernel's tool cannot know is what is
on it. The allocation site is known of objects that were allocated while `tracemalloc` was on.
"""

from __future__ import annotations

import _tracemalloc
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .contents import PAGE_BYTES, name_of
from .memory import memory_of
from .owners import Owned, owned

#: Seconds without a use after which a page is cold, and the share of the run for a shorter one.
COLD_AFTER_S, COLD_SHARE = 60.0, 0.5
#: An owner, an allocation site and a type.
Stack = tuple[str, str, str]
#: The site of objects that were allocated untraced.
UNTRACED = "(not traced: run python -X tracemalloc)"


@dataclass(slots=True)
class Use:
    """The memory of objects that have one name."""

    name: str
    objects: int = 0
    size: int = 0
    """Bytes in tracked pages."""
    cold: int = 0
    """Those on cold pages."""
    idle: Counter[int] = field(default_factory=Counter)
    """Cold bytes by the seconds for which their page was idle."""
    reads_seen: bool = True
    """False if the signal reports no reads, and the objects are read without a write."""

    def add(self, parts: Iterable[tuple[int, int, bool]], times: int) -> None:
        """Adds the bytes of an object that stands for several."""
        for inside, seconds, is_cold in parts:
            self.size += inside * times
            if is_cold:
                self.cold += inside * times
                self.idle[seconds] += inside * times

    def merge(self, other: Use) -> None:
        """Adds another's objects."""
        self.objects += other.objects
        self.size += other.size
        self.cold += other.cold
        self.idle.update(other.idle)
        self.reads_seen &= other.reads_seen

    @property
    def idle_s(self) -> int:
        """The time for which at least half of the cold bytes were idle."""
        half = self.cold / 2
        for seconds, size in sorted(self.idle.items(), reverse=True):
            half -= size
            if half <= 0:
                return seconds
        return 0


@dataclass(slots=True)
class Coldness:
    """The memory of the program, in bytes."""

    signal: str
    tracked: int
    """Of all known pages."""
    cold: int
    """Of the cold ones."""
    cold_after_s: float
    examined: int = 0
    """Objects that were examined."""
    types: dict[str, Use] = field(default_factory=dict)
    sites: dict[str, Use] = field(default_factory=dict)
    owners: dict[str, Use] = field(default_factory=dict)
    stacks: dict[Stack, Use] = field(default_factory=dict)
    """By owner, allocation site and type."""

    @property
    def named(self) -> int:
        """Bytes of the objects that were found. They are estimates where objects stand for
        others."""
        return sum(use.size for use in self.types.values())


class _Pages:
    """The known pages and the time for which each was idle."""

    def __init__(self, addresses: array[int], idle_s: array[int], cold_after_s: float) -> None:
        self._addresses, self._idle_s, self._cold_after_s = addresses, idle_s, cold_after_s

    def parts(self, start: int, size: int) -> Iterable[tuple[int, int, bool]]:
        """Yields the bytes on each known page, its idle seconds, and true if it is cold."""
        at = max(0, bisect_right(self._addresses, start) - 1)
        end = start + size
        while at < len(self._addresses) and self._addresses[at] < end:
            page = self._addresses[at]
            inside = min(end, page + PAGE_BYTES) - max(start, page)
            if inside > 0:
                yield inside, self._idle_s[at], self._idle_s[at] >= self._cold_after_s
            at += 1


def coldness(
    addresses: array[int],
    idle_s: array[int],
    signal: str,
    run_s: float,
    judged: array[int] | None = None,
    objects: Iterable[Owned] | None = None,
) -> Coldness:
    """Finds the memory of the program on these pages, which are ascending.

    `judged` are the addresses of types, of which the signal reports every use; None: of all types.

    >>> kept = [bytearray(1 << 16)]
    >>> (_, (start, _)) = memory_of(kept[0])
    >>> pages = array("Q", range(start & -4096, start + (1 << 16), 4096))
    >>> found = coldness(pages, array("I", [600] * len(pages)), "uffd-rwp", 1000.0,
    ...                  objects=[Owned(kept[0], 1, "cache.STORE")])
    >>> found.owners["cache.STORE"].cold, found.owners["cache.STORE"].idle_s
    (65536, 600)
    """
    cold_after_s = min(COLD_AFTER_S, COLD_SHARE * run_s)
    pages = _Pages(addresses, idle_s, cold_after_s)
    cold_pages = sum(seconds >= cold_after_s for seconds in idle_s)
    found = Coldness(signal, len(addresses) * PAGE_BYTES, cold_pages * PAGE_BYTES, cold_after_s)
    of_writes = None if judged is None else set(judged)
    for thing, weight, owner in owned() if objects is None else objects:
        found.examined += 1
        stack, parts = (owner, site_of(thing), name_of(type(thing))), memory_of(thing)
        if (use := found.stacks.get(stack)) is None:
            use = found.stacks[stack] = Use("; ".join(stack))
        use.objects += weight
        # Items and data are beside the object, and are read without a write.
        use.reads_seen &= of_writes is None or (id(type(thing)) in of_writes and len(parts) == 1)
        for start, size in parts:
            # Large memory is on pages of its own, so it stands only for itself.
            use.add(pages.parts(start, size), weight if size <= PAGE_BYTES else 1)
    for stack, use in found.stacks.items():
        for uses, name in zip((found.owners, found.sites, found.types), stack, strict=True):
            uses.setdefault(name, Use(name)).merge(use)
    return found


def site_of(thing: Any) -> str:
    """Returns the file and the line of an object's allocation, if tracemalloc knows it."""
    if not _tracemalloc.is_tracing():
        return UNTRACED
    # An interpreter that traces from its start has not imported it.
    import tracemalloc

    trace = tracemalloc.get_object_traceback(thing)
    return f"{trace[-1].filename}:{trace[-1].lineno}" if trace else UNTRACED
