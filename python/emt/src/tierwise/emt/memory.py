"""The memory of an object, without a call of the program's code: the object itself, the block with
its items, and its data."""

from __future__ import annotations

import sys
from array import array
from typing import Any

from .buffers import ranges_of
from .errors import Unplaceable
from .support import extension

#: An address and a number of bytes.
Part = tuple[int, int]
#: Types for which `sys.getsizeof` runs no code of the program, with their items in themselves.
_WHOLE = frozenset({bytes, str, int, float, complex, tuple})
#: The collector's two words before an object, which getsizeof adds.
_GC_BYTES = 16


def memory_of(thing: Any) -> list[Part]:
    """Returns the parts of an object's memory; the object itself is the first.

    >>> [size for _, size in memory_of([None] * 1000)]
    [40, 8000]
    >>> [size for _, size in memory_of(bytearray(8192))][1]
    8192
    """
    kind = type(thing)
    if kind in _WHOLE:
        return [(id(thing), sys.getsizeof(thing))]
    # The part that `object.__sizeof__` adds is correct only for some types of variable size.
    basic = type.__getattribute__(kind, "__basicsize__")
    parts = [(id(thing), basic if isinstance(basic, int) else 0)]
    if kind in (list, set, frozenset, dict):
        at, size = extension().storage(thing)
        if kind is dict and at:
            size = sys.getsizeof(thing) - basic - _GC_BYTES
        return [*parts, (at, size)] if size > 0 else parts
    if kind in (bytearray, array) or _is_data(thing):
        try:
            parts += [(start, end - start) for start, end in ranges_of(thing)]
        except Unplaceable:
            # It is exported by another, or a device's: it has no memory of its own here.
            return parts
    return parts


def _is_data(thing: Any) -> bool:
    """Returns true if an object has data of its own: a NumPy array that is no view, or a buffer of
    pyarrow that is no slice."""
    numpy, pyarrow = sys.modules.get("numpy"), sys.modules.get("pyarrow")
    if is_ndarray(thing):
        return bool(thing.flags.owndata) and bool(thing.nbytes) and numpy is not None
    kind = getattr(pyarrow, "Buffer", None)
    return kind is not None and issubclass(type(thing), kind) and thing.parent is None


def is_ndarray(thing: Any) -> bool:
    """Returns true for an array of NumPy itself, not of a subclass, which may run its own code."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(thing) is getattr(numpy, "ndarray", None)
