"""The contents of pages, by type."""

from __future__ import annotations

from array import array

import numpy as np
import pytest
from tierwise.emt.contents import PAGE_BYTES, contents


class Hostile(type):
    """A metaclass whose classes run code at each lookup of an attribute."""

    def __getattribute__(cls, name: str) -> object:
        raise AssertionError(f"{name} was called")


class Thing(metaclass=Hostile):
    __slots__ = ("held",)

    def __sizeof__(self) -> int:
        raise AssertionError("the size was read by a call")

    def __getattribute__(self, name: str) -> object:
        raise AssertionError(f"{name} was called")


def pages_of(start: int, size: int) -> array[int]:
    first = start - start % PAGE_BYTES
    return array("Q", range(first, start + size, PAGE_BYTES))


def test_data_outside_of_an_object_counts() -> None:
    numbers = array("d", range(10_000))
    start, length = numbers.buffer_info()
    pages = pages_of(start, length * 8)
    found = contents(pages, array("f", [4.0] * len(pages)), parts=4)
    use = found.types["array.array"]
    assert use.size == length * 8
    assert use.hotness == 4.0
    assert [found.largest(part) for part in range(4)] == ["array.array"] * 4


def test_local_data_counts_among_many_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    # One container of the collector's list is examined.
    monkeypatch.setattr("tierwise.emt.contents.MAX_CONTAINERS", 1)
    numbers = array("d", range(10_000))
    start, length = numbers.buffer_info()
    pages = pages_of(start, length * 8)
    found = contents(pages, array("f", [4.0] * len(pages)), parts=1)
    assert found.types["array.array"].size == length * 8


def test_numpy_arrays_count_once() -> None:
    held = np.zeros(1 << 16)
    pages = pages_of(held.ctypes.data, held.nbytes)
    size = held.nbytes
    views = [held[:100], held[100:]]
    del held
    found = contents(pages, array("f", [1.0] * len(pages)), parts=2)
    assert found.types["numpy.ndarray"].size == size, len(views)


def test_no_code_of_the_program_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    # All containers are examined, also those that other tests left in the process.
    monkeypatch.setattr("tierwise.emt.contents.MAX_CONTAINERS", 1 << 30)
    monkeypatch.setattr("tierwise.emt.contents.MAX_OBJECTS", 1 << 30)
    things = [object.__new__(Thing) for _ in range(1000)]
    where = sorted({id(thing) - id(thing) % PAGE_BYTES for thing in things})
    found = contents(array("Q", where), array("f", [1.0] * len(where)), parts=1)
    use = next(use for name, use in found.types.items() if name.endswith(".Thing"))
    assert use.objects == len(things)


def test_without_pages_there_is_nothing() -> None:
    found = contents(array("Q"), array("f"), parts=3)
    assert not found.types
    assert found.largest(2) is None
