"""The contents of the program's pages: the objects there by type, for the report.

The collector lists the container objects, and these report the objects to which they refer; other
objects are not found. An object's attributes are never read, because that could run the program's
code. The data of NumPy arrays, `array.array` and `bytearray` outside of the object counts too.
"""

from __future__ import annotations

import gc
import inspect
import sys
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from types import FrameType
from typing import Any

from .memory import is_ndarray, memory_of

PAGE_BYTES = 4096
#: Limit of examined objects among the collector's containers, and among one object's references.
#: They are taken at equal distances, and each stands for those between.
MAX_CONTAINERS = 50_000
MAX_REFERENTS = 2_000
#: Limit of examined objects in all: two seconds, at some six microseconds each.
MAX_OBJECTS = 300_000


@dataclass(slots=True)
class TypeUse:
    """The pages of one type's objects."""

    name: str
    objects: int = 0
    size: int = 0
    """Bytes of its objects in tracked pages."""
    heat: float = 0.0
    """The sum of bytes times the hotness of their page."""

    @property
    def hotness(self) -> float:
        """The mean hotness of its bytes."""
        return self.heat / self.size if self.size else 0.0


@dataclass(slots=True)
class Contents:
    """Types in all tracked pages, and in equal parts of them by address."""

    types: dict[str, TypeUse]
    parts: list[Counter[str]]
    """Bytes by type."""
    exact: bool = True
    """True if every object was examined, instead of some that stand for others."""

    def largest(self, part: int) -> str | None:
        """Returns the type with most bytes in a part; None if it has no known object."""
        most = self.parts[part].most_common(1)
        return most[0][0] if most else None


@dataclass(slots=True)
class _Pages:
    addresses: array[int]
    hotness: array[float]
    parts: int
    contents: Contents = field(init=False)

    def __post_init__(self) -> None:
        self.contents = Contents({}, [Counter() for _ in range(self.parts)])

    def add(self, name: str, start: int, size: int, weight: int) -> None:
        """Adds bytes of a type at an address, on any number of pages, with the weight of `weight`
        such objects."""
        use = self.contents.types.setdefault(name, TypeUse(name))
        at = max(0, bisect_right(self.addresses, start) - 1)
        end = start + size
        while at < len(self.addresses) and self.addresses[at] < end:
            page = self.addresses[at]
            inside = min(end, page + PAGE_BYTES) - max(start, page)
            if inside > 0:
                use.size += inside * weight
                use.heat += inside * weight * self.hotness[at]
                self.contents.parts[at * self.parts // len(self.addresses)][name] += inside * weight
            at += 1


def contents(addresses: array[int], hotness: array[float], parts: int) -> Contents:
    """The contents of these pages, which are ascending.

    >>> kept = bytearray(8192)
    >>> _, (start, _) = memory_of(kept)
    >>> pages = array("Q", [start & -4096, (start & -4096) + 4096])
    >>> found = contents(pages, array("f", [0.0, 8.0]), parts=2)
    >>> found.types["bytearray"].size > 0 and found.largest(1)
    'bytearray'
    """
    pages = _Pages(addresses, hotness, parts)
    if addresses:
        for thing, weight in islice(_objects(), MAX_OBJECTS):
            name = name_of(type(thing))
            for at, size in memory_of(thing):
                # Large memory is on pages of its own, so it stands only for itself.
                pages.add(name, at, size, weight if size <= PAGE_BYTES else 1)
            pages.contents.types[name].objects += weight
            pages.contents.exact &= weight == 1
    return pages.contents


def _objects() -> Iterator[tuple[Any, int]]:
    """Yields local variables, containers and their references, each once, with its weight."""
    seen: set[int] = set()
    for frame in list(sys._current_frames().values()):
        above: FrameType | None = frame
        while above is not None:
            # The names in a class's body may be in the program's own mapping.
            if above.f_code.co_flags & inspect.CO_OPTIMIZED:
                for local in list(above.f_locals.values()):
                    # The collector's list has it too, but not all of that list is examined.
                    yield from _new([local], 1, seen)
                    yield from _referents(local, 1, seen)
            above = above.f_back
    everything = gc.get_objects()
    step = _step(len(everything), MAX_CONTAINERS)
    for container in everything[::step]:
        if container is not everything:
            yield from _new([container], step, seen)
            yield from _referents(container, step, seen)


def _step(count: int, most: int) -> int:
    return max(1, -(-count // most))


def _untracked(things: Iterable[Any]) -> list[Any]:
    """Returns the things that the collector does not list; its list covers the others."""
    return [thing for thing in things if not gc.is_tracked(thing)]


def _referents(thing: Any, weight: int, seen: set[int]) -> Iterator[tuple[Any, int]]:
    referents = gc.get_referents(thing)
    step = _step(len(referents), MAX_REFERENTS)
    yield from _new(_untracked(referents[::step]), weight * step, seen)


def _new(things: Iterable[Any], weight: int, seen: set[int]) -> Iterator[tuple[Any, int]]:
    for thing in things:
        if id(thing) not in seen:
            seen.add(id(thing))
            yield thing, weight
            if is_ndarray(thing):
                # The collector does not know NumPy's arrays: a view's data belongs to another.
                yield from _new([thing.base], 1, seen)


def name_of(kind: type) -> str:
    """Returns the name of a class with its module, without a call of the program's metaclass."""
    module, name = (type.__getattribute__(kind, key) for key in ("__module__", "__qualname__"))
    return name if module in ("builtins", None) else f"{module}.{name}"
