"""Tests that every signal finds a known hot set."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hot_set import Known, finds
from protection import protected_mappings
from tierwise.emt import Unavailable
from tierwise.emt.settings import Settings
from tierwise.emt.signals import make_signal
from tierwise.emt.signals.known_types import all_types
from tierwise.emt.support import extension


@pytest.fixture
def stop() -> Iterator[int]:
    read, write = os.pipe()
    yield read
    os.close(read)
    os.close(write)


def test_uffd_wp_finds_what_is_used(stop: int) -> None:
    finds(make_signal(Settings(overhead_budget=0.5, sample_interval=0.02)), Known(), stop)
    assert protected_mappings() == 0


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


def test_finding_types_runs_no_code_of_theirs() -> None:
    class Touchy(type):
        def __hash__(cls) -> int:
            raise AssertionError("a type was hashed")

    class Guarded(metaclass=Touchy):
        pass

    assert id(Guarded) in all_types()
