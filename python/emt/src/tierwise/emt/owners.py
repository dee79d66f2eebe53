"""The program's objects with their owners: the module and the attribute, or the function and the
local variable, by which they are reached on the shortest way.

Large containers are sampled at equal distances, and an object that is examined stands for those
between. An object's attributes are never read, because that could run the program's code. Objects
to which only C code refers are not found.
"""

from __future__ import annotations

import gc
import inspect
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, NamedTuple

from .contents import MAX_OBJECTS, MAX_REFERENTS

#: Types with references that lead back to all of a module, or to what every program has.
_ENDS = (ModuleType, type, CodeType, FrameType)
#: Owners are named down to an attribute of an object that a module has: further names would be as
#: many as the objects.
_NAMED_DEPTH = 1


class Owned(NamedTuple):
    """An examined object."""

    thing: Any
    weight: int
    """The number of objects for which it stands."""
    owner: str


def owned(limit: int = MAX_OBJECTS) -> Iterator[Owned]:
    """Yields objects, each once, those that are nearest to a name first."""
    seen: set[int] = set()
    waiting = deque((Owned(*root), 0) for root in _roots())
    # The search itself is no part of the program.
    seen.update((id(seen), id(waiting)))
    while waiting and limit > 0:
        found, depth = waiting.popleft()
        if id(found.thing) in seen:
            continue
        seen.add(id(found.thing))
        limit -= 1
        yield found
        waiting.extend((below, depth + 1) for below in _below(found, depth))


def _roots() -> Iterator[tuple[Any, int, str]]:
    """Yields the values of local variables, of the program's modules and of others, in this
    order."""
    for frame in list(sys._current_frames().values()):
        above: FrameType | None = frame
        while above is not None:
            code = above.f_code
            if code.co_flags & inspect.CO_OPTIMIZED and not _is_own(above):
                where = f"{above.f_globals.get('__name__', '?')}.{code.co_name}()"
                for name, value in list(above.f_locals.items()):
                    yield value, 1, f"{where} {name}"
            above = above.f_back
    library = set(sys.stdlib_module_names)
    names = [name for name in list(sys.modules) if isinstance(name, str)]
    for module in sorted(
        names, key=lambda name: (name != "__main__", name.split(".")[0] in library)
    ):
        for name, value in _attributes(sys.modules.get(module), sys.maxsize):
            if not (name.startswith("__") and name.endswith("__")):
                yield value, 1, f"{module}.{name}"


def _is_own(frame: FrameType) -> bool:
    """Returns true for a function of this package, which waits for the end of the search."""
    return str(frame.f_globals.get("__name__", "")).startswith(__package__ or "")


def _below(found: Owned, depth: int) -> Iterator[Owned]:
    """Yields the objects to which one refers."""
    thing = found.thing
    if _ends(thing):
        return
    if type(thing) is FunctionType:
        # Its globals are its module's. Its cells hold what it was made with.
        yield from (Owned(cell, 1, found.owner) for cell in thing.__closure__ or ())
        return
    if depth < _NAMED_DEPTH and (attributes := _attributes(thing)):
        for name, value in attributes:
            yield Owned(value, found.weight, f"{found.owner}.{name}")
    referents, step = _sample(thing)
    for referent in referents:
        yield Owned(referent, found.weight * step, found.owner)


def _ends(thing: Any) -> bool:
    """Returns true for an object below which the search does not go. `isinstance` would read the
    object's own __class__."""
    return issubclass(type(thing), _ENDS)


def _attributes(thing: Any, most: int = MAX_REFERENTS) -> list[tuple[str, Any]]:
    """Returns the attributes of an object that are in its dict, unless there are more. A module
    that is imported when it is first used stays as it is."""
    try:
        space = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return []
    if type(space) is not dict or len(space) > most:
        return []
    return [(name, value) for name, value in list(space.items()) if isinstance(name, str)]


def _sample(thing: Any) -> tuple[Iterable[Any], int]:
    """Returns some of the objects to which one refers, and the number for which each stands."""
    if type(thing) in (list, tuple):
        step = max(1, -(-len(thing) // MAX_REFERENTS))
        return thing[::step], step
    referents = gc.get_referents(thing)
    step = max(1, -(-len(referents) // MAX_REFERENTS))
    return referents[::step], step
