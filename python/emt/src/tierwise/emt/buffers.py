"""The memory of an object's data: the address ranges of buffers.

NumPy, pyarrow and PyTorch have allocators of their own, so that their data is known by its address
only. An object that offers the buffer protocol or DLPack has its data at an address, too.
"""

from __future__ import annotations

import sys
from typing import Any

from .errors import Unplaceable
from .support import extension

#: A first address, and the one after the last.
Range = tuple[int, int]


def ranges_of(thing: object) -> list[Range]:
    """Returns the ranges of an object's data, ascending and without overlap.

    The data of an array of objects are pointers; the objects are elsewhere.

    >>> numbers = bytearray(100)
    >>> [(start, end)] = ranges_of(numbers)
    >>> end - start
    100

    Raises:
        Unplaceable: It has no data in the memory of this process; the text has the reason.
    """
    return merged(_raw_ranges(thing))


def owner_of(thing: Any) -> object:
    """Returns the object that an object's data ends with, as far as it is known."""
    numpy = sys.modules.get("numpy")
    if isinstance(thing, memoryview):
        return owner_of(thing.obj)
    if numpy is not None and isinstance(thing, numpy.ndarray) and thing.base is not None:
        return owner_of(thing.base)
    return thing


def merged(ranges: list[Range]) -> list[Range]:
    """Returns the same memory as ranges that neither overlap nor touch, without empty ones.

    >>> merged([(8, 9), (1, 3), (2, 5), (5, 6), (7, 7)])
    [(1, 6), (8, 9)]
    """
    found: list[Range] = []
    for start, end in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        elif start < end:
            found.append((start, end))
    return found


def _raw_ranges(thing: Any) -> list[Range]:
    numpy, pyarrow = sys.modules.get("numpy"), sys.modules.get("pyarrow")
    if numpy is not None and isinstance(thing, numpy.ndarray):
        low, high = _byte_bounds(numpy)(thing)
        # An array without items has the bounds of one item.
        return [(low, high)] if thing.size else []
    if pyarrow is not None and (found := _of_arrow(pyarrow, thing)) is not None:
        return found
    if hasattr(type(thing), "__dlpack__"):
        return [_of_dlpack(thing)]
    try:
        return [extension().buffer_range(thing)]
    except TypeError:
        raise Unplaceable(
            f"a {type(thing).__name__} has no buffer; allowed: a NumPy array, a tensor in the "
            "CPU's memory, a buffer or an array or a table of pyarrow, or an object with the "
            "buffer protocol"
        ) from None
    except (BufferError, ValueError) as error:
        # ValueError: it is closed, or released.
        raise Unplaceable(f"the buffer of a {type(thing).__name__}: {error}") from error


def _byte_bounds(numpy: Any) -> Any:
    """Returns a function of NumPy, which is elsewhere since NumPy 2."""
    try:
        return numpy.lib.array_utils.byte_bounds
    except AttributeError:
        return numpy.byte_bounds


def _of_arrow(pyarrow: Any, thing: Any) -> list[Range] | None:
    """Returns the ranges of an object of pyarrow; None for another object."""
    if isinstance(thing, pyarrow.Buffer):
        if not thing.is_cpu:
            raise Unplaceable("a pyarrow.Buffer: its memory is a device's; allowed: a CPU's")
        return [(thing.address, thing.address + thing.size)]
    if isinstance(thing, pyarrow.ChunkedArray):
        parts = thing.chunks
    elif isinstance(thing, (pyarrow.Table, pyarrow.RecordBatch)):
        parts = thing.columns
    elif isinstance(thing, pyarrow.DictionaryArray):
        parts = [*filter(None, thing.buffers()), thing.dictionary]
    elif isinstance(thing, pyarrow.Array):
        parts = [buffer for buffer in thing.buffers() if buffer is not None]
    else:
        return None
    return [found for part in parts for found in _raw_ranges(part)]


def _of_dlpack(thing: Any) -> Range:
    """Returns the range of a tensor. One that records gradients does not export itself, but the
    tensor without them has the same memory."""
    exports = thing.detach() if hasattr(type(thing), "detach") else thing
    device = exports.__dlpack_device__()[0]
    if device != 1:
        raise Unplaceable(
            f"a {type(thing).__name__}: its memory is of DLPack's device type {int(device)}; "
            "allowed: 1, a CPU"
        )
    try:
        found: Range = extension().dlpack_range(exports.__dlpack__())
    except (BufferError, TypeError, RuntimeError) as error:
        raise Unplaceable(f"a {type(thing).__name__}: {error}") from error
    return found
