"""Tests that the signals of objects find a known hot set."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator

import pytest
from emt_reproduction import _objects, make_signal
from emt_reproduction.pool_objects import PoolObjects, types_of_objects
from hot_set import Known, finds
from tierwise.emt import Unavailable
from tierwise.emt.support import free_threaded

of_objects = pytest.mark.xfail(
    free_threaded(), raises=Unavailable, strict=True, reason="a free-threaded build has no pools"
)


@pytest.fixture
def stop() -> Iterator[int]:
    read, write = os.pipe()
    yield read
    os.close(read)
    os.close(write)


@of_objects
def test_refdelta_finds_references_that_are_held(stop: int) -> None:
    finds(PoolObjects("refdelta", memory_share=1.0), Known(), stop)


@of_objects
def test_marking_finds_references_that_are_held(stop: int) -> None:
    finds(make_signal("refdelta", "marking"), Known(5_000), stop)


@pytest.mark.parametrize("objects", ["pools", "marking"])
def test_growth_works_or_gives_a_reason(objects: str, stop: int) -> None:
    if _objects.GROWTH_BUILD_ID:
        finds(make_signal("growth", objects), Known(20_000), stop)
    else:
        with pytest.raises(Unavailable, match="growth: .*free-threaded|growth/build.sh"):
            make_signal("growth", objects)


@of_objects
def test_pools_hold_nearly_all_marked_objects() -> None:
    keep = [object() for _ in range(50_000)]
    try:
        objects = _objects.Objects(False)
    except OSError as error:
        raise Unavailable(str(error)) from error
    pools, collected, known, _ = objects.collect(types_of_objects(), 1 << 30)
    assert pools == collected
    assert known > 0.95 * len(_objects.mark(10**6, 64)) // 8 > len(keep)
    sampled, _ = objects.sample()
    assert sampled == known
    with pytest.raises(RuntimeError, match="already"):
        _objects.Objects(False)
    objects.close()


def test_marking_stops_at_its_limits() -> None:
    everything = len(_objects.mark(10**6, 500)) // 8
    shallow = len(_objects.mark(10**6, 1)) // 8
    short = len(_objects.mark(1, 500)) // 8
    assert shallow <= everything
    assert short < everything
    with pytest.raises(ValueError, match="max_depth 1001"):
        _objects.mark(1, 1001)


def test_counters_of_freed_memory_are_marked() -> None:
    _, readable = _objects.counters(array("Q", [8, id(Known)]), False)
    assert list(readable) == [0, 1]
