"""Copies what was allocated before into a heap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .support import extension

_Copy = Callable[[Any], Any]


class Rebuilding:
    """One copy of a structure. An object that it has twice is copied once."""

    def __init__(self) -> None:
        self._leaf: _Copy = extension().copied
        # Copies by the identity of their originals, which are kept, so that no identity is used
        # twice.
        self._done: dict[int, tuple[Any, Any]] = {}
        self._containers: dict[type, _Copy] = {
            list: self._list,
            dict: self._dict,
            set: self._set,
            tuple: self._tuple,
            frozenset: self._frozenset,
        }
        self._leaves = frozenset({str, bytes, int, float, complex})

    def copy(self, thing: Any) -> Any:
        """Returns the copy, or the object itself if it is none of the known types."""
        known = self._done.get(id(thing))
        if known is not None:
            return known[1]
        kind = type(thing)
        if kind in self._leaves:
            return self._note(thing, self._leaf(thing))
        container = self._containers.get(kind)
        return container(thing) if container is not None else thing

    def _note(self, thing: Any, copied: Any) -> Any:
        self._done[id(thing)] = (thing, copied)
        return copied

    # A mutable container is noted before its items, which may refer to it.

    def _list(self, thing: list[Any]) -> list[Any]:
        copied: list[Any] = self._note(thing, [])
        copied.extend([self.copy(item) for item in thing])
        return copied

    def _dict(self, thing: dict[Any, Any]) -> dict[Any, Any]:
        copied: dict[Any, Any] = self._note(thing, {})
        copied.update({self.copy(key): self.copy(value) for key, value in list(thing.items())})
        return copied

    def _set(self, thing: set[Any]) -> set[Any]:
        copied: set[Any] = self._note(thing, set())
        copied.update([self.copy(item) for item in thing])
        return copied

    # An immutable one is noted after them, unless one of them has led back to it.

    def _tuple(self, thing: tuple[Any, ...]) -> Any:
        return self._after(thing, tuple([self.copy(item) for item in thing]))

    def _frozenset(self, thing: frozenset[Any]) -> Any:
        return self._after(thing, frozenset([self.copy(item) for item in thing]))

    def _after(self, thing: Any, copied: Any) -> Any:
        known = self._done.get(id(thing))
        return known[1] if known is not None else self._note(thing, copied)
