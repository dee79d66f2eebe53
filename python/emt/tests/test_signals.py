"""Tests that every signal finds a known hot set."""

from __future__ import annotations

import os
import threading
import time
from array import array
from collections.abc import Callable, Iterator

import pytest
from protection import protected_mappings
from tierwise.emt import Unavailable
from tierwise.emt.native import NativeTable
from tierwise.emt.settings import Settings
from tierwise.emt.signals import Signal, make_signal
from tierwise.emt.signals.known_types import types_of_objects
from tierwise.emt.signals.pool_objects import PoolObjects
from tierwise.emt.support import extension, free_threaded

of_objects = pytest.mark.xfail(
    free_threaded(), raises=Unavailable, strict=True, reason="a free-threaded build has no pools"
)


class Known:
    """Objects, a part of which is used repeatedly."""

    def __init__(self, objects: int = 60_000) -> None:
        self.all = sorted((bytearray(40) for _ in range(objects)), key=id)
        self.hot = self.all[objects // 2 : objects // 2 + objects // 10]
        self.held: list[object] = []

    def use(self, seconds: float) -> None:
        """Uses the hot part, and holds or drops references to it, which refdelta detects."""
        self.held = [] if self.held else list(self.hot)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for item in self.hot:
                item[0] = 1

    def separates(self, table: NativeTable) -> bool:
        """Returns true if pages of the hot part are hotter than three quarters of the other
        pages."""
        first, last = id(self.hot[0]), id(self.hot[-1])
        others = sorted(
            table.hotness(id(item)) for item in self.all[::7] if not first <= id(item) <= last
        )
        hot = sorted(table.hotness(id(item)) for item in self.hot[::7])
        return hot[len(hot) // 2] > others[len(others) * 3 // 4]


@pytest.fixture
def stop() -> Iterator[int]:
    read, write = os.pipe()
    yield read
    os.close(read)
    os.close(write)


def finds(signal: Signal, known: Known, stop: int) -> None:
    """Samples while the hot part is used, until the signal distinguishes it."""
    table = NativeTable()
    try:
        for _ in range(400):
            _in_thread(lambda: signal.sample(table, 0.02, stop), lambda: known.use(0.03))
            signal.adjust(0.001, 0.5)
            if known.separates(table):
                return
        raise AssertionError(
            f"{signal.name} does not distinguish the hot part from the others "
            f"after 400 rounds over {len(table)} pages"
        )
    finally:
        signal.close()


def _in_thread(sample: Callable[[], object], work: Callable[[], None]) -> None:
    thread = threading.Thread(target=sample)
    thread.start()
    work()
    thread.join()


def test_uffd_wp_finds_what_is_used(stop: int) -> None:
    finds(make_signal(Settings(overhead_budget=0.5, sample_interval=0.02)), Known(), stop)
    assert protected_mappings() == 0


@of_objects
def test_refdelta_finds_references_that_are_held(stop: int) -> None:
    finds(PoolObjects("refdelta", memory_share=1.0), Known(), stop)


@of_objects
def test_marking_finds_references_that_are_held(stop: int) -> None:
    finds(make_signal(Settings(signal="refdelta", objects="marking")), Known(5_000), stop)


@pytest.mark.parametrize("objects", ["pools", "marking"])
def test_growth_works_or_gives_a_reason(objects: str, stop: int) -> None:
    settings = Settings(signal="growth", objects=objects)
    if extension().GROWTH_BUILD_ID:
        finds(make_signal(settings), Known(20_000), stop)
    else:
        with pytest.raises(Unavailable, match="growth: .*free-threaded|growth/build.sh"):
            make_signal(settings)


def test_rwp_works_or_names_its_kernel(stop: int) -> None:
    settings = Settings(signal="uffd-rwp", overhead_budget=0.5, sample_interval=0.02)
    try:
        signal = make_signal(settings)
    except Unavailable as error:
        assert "7.3" in str(error)
    else:
        finds(signal, Known(), stop)


def test_a_fault_costs_something(stop: int) -> None:
    tracker = extension().Tracker("uffd-wp")
    assert 50 < tracker.fault_ns < 1_000_000
    tracker.close()
    tracker.close()
    with pytest.raises(RuntimeError, match="closed"):
        tracker.sample(extension().Table(), 10**6, 10**6, 1, 0.5, stop)
    with pytest.raises(ValueError, match="uffd-wp, uffd-rwp"):
        extension().Tracker("telepathy")


@of_objects
def test_pools_hold_nearly_all_marked_objects() -> None:
    keep = [object() for _ in range(50_000)]
    try:
        objects = extension().Objects(False)
    except OSError as error:
        raise Unavailable(str(error)) from error
    pools, collected, known, _ = objects.collect(types_of_objects(), 1 << 30)
    assert pools == collected
    assert known > 0.95 * len(extension().mark(10**6, 64)) // 8 > len(keep)
    sampled, _ = objects.sample()
    assert sampled == known
    with pytest.raises(RuntimeError, match="already"):
        extension().Objects(False)
    objects.close()


def test_finding_types_runs_no_code_of_theirs() -> None:
    class Touchy(type):
        def __hash__(cls) -> int:
            raise AssertionError("a type was hashed")

    class Guarded(metaclass=Touchy):
        pass

    assert id(Guarded) in list(types_of_objects())


def test_marking_stops_at_its_limits() -> None:
    everything = len(extension().mark(10**6, 500)) // 8
    shallow = len(extension().mark(10**6, 1)) // 8
    short = len(extension().mark(1, 500)) // 8
    assert shallow <= everything
    assert short < everything
    with pytest.raises(ValueError, match="max_depth 1001"):
        extension().mark(1, 1001)


def test_counters_of_freed_memory_are_marked() -> None:
    _, readable = extension().counters(array("Q", [8, id(Known)]), False)
    assert list(readable) == [0, 1]
