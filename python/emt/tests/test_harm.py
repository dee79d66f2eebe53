"""A tracked program keeps its memory, its signals and its tracking, whatever it does."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from array import array
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from conftest import Program
from protection import huge_bytes
from tierwise.emt.budget import CREDIT_S, RESERVE, Ledger
from tierwise.emt.native import NativeTable
from tierwise.emt.settings import Settings
from tierwise.emt.signals import make_signal
from tierwise.emt.signals.uffd_wp import UffdWp
from tierwise.emt.signals.uses import types_whose_uses_write
from tierwise.emt.support import extension, free_threaded

TESTS = str(Path(__file__).parent)
BEGIN = f"""
import os, sys; sys.path.insert(0, {TESTS!r})
from protection import is_protected, protected_mappings
import tierwise.emt as emt
"""

#: A program's mapping whose protection a test queries by its address.
OWN_MAPPING = """
import ctypes, mmap
memory = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory[:] = b"x" * len(memory)
start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
"""


def test_a_fork_keeps_the_parents_protection(program: Program) -> None:
    # One interval outlasts the program: nothing registers the parent's memory again.
    printed = program(
        BEGIN
        + OWN_MAPPING
        + """
emt.start(emt.Settings(sample_interval=60.0, overhead_budget=1.0))
while not is_protected(start):
    pass
child = os.fork()
if child == 0:
    os._exit(0 if not emt.stats().active and protected_mappings() == 0 else 1)
ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(ended, is_protected(start), emt.stats().active)
emt.end()
print(protected_mappings())
"""
    )
    assert printed.stdout == "0 True True\n0\n"


def test_an_inherited_tracker_can_only_close(program: Program) -> None:
    # A library's fork calls no hook of Python's.
    printed = program(
        BEGIN
        + OWN_MAPPING
        + """
from tierwise.emt.support import extension
tracker, table = extension().Tracker("uffd-wp"), extension().Table()
stop, _ = os.pipe()
tracker.sample(table, 10**6, 10**6, 1 << 20, 0.5, stop)
child = ctypes.PyDLL(None).fork()
if child == 0:
    refused = ""
    try:
        tracker.sample(table, 10**6, 10**6, 1 << 20, 0.5, stop)
    except RuntimeError as error:
        refused = str(error)
    tracker.close()
    os._exit(0 if "parent" in refused else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), is_protected(start))
tracker.close()
print(protected_mappings())
"""
    )
    assert printed.stdout == "0 True\n0\n"


@pytest.mark.parametrize("forks", [0, 1])
def test_awaited_signals_reach_the_program(program: Program, forks: int) -> None:
    # After a fork another function starts the thread again.
    printed = program(
        BEGIN
        + f"""
import signal
before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
with emt.tiering(sample_interval=0.02, overhead_budget=1.0) as t:
    for _ in range({forks}):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
    # The thread is there.
    intervals = t.stats().intervals
    while t.stats().intervals == intervals:
        pass
    assert signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGUSR1}}) == before
    os.kill(os.getpid(), signal.SIGUSR1)
    print(signal.sigwait({{signal.SIGUSR1}}).name)
"""
    )
    assert printed.stdout == "SIGUSR1\n"


PAGE = 4096
#: The offset of a list's pointer to its items: after its reference count, its type and its length.
ITEMS_OFFSET = 24


def pages_of(objects: Iterable[object]) -> set[int]:
    """Returns the pages on which objects start, without the first and the last, which they share
    with other objects."""
    return set(sorted({id(item) & -PAGE for item in objects})[1:-1])


def pages_between(start: int, length: int) -> set[int]:
    return {start + offset & -PAGE for offset in range(0, length, PAGE)}


def address_of(buffer: bytearray) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


def plan(hotness: dict[int, float], types: array[int] | None) -> set[int]:
    """Returns the pages below bucket 1 that would be demoted."""
    table = NativeTable(lambda: types)
    table.inner.see(hotness, 1.0)
    table.judge(1)
    return set(table.coldest_fast(1, 1, 1 << 20))


def cold(pages: set[int]) -> dict[int, float]:
    return dict.fromkeys(pages, 0.0)


def test_write_signals_demote_only_idle_objects() -> None:
    floats = [float(n) for n in range(100_000)]
    large, small = bytearray(8 << 20), [bytearray(300) for _ in range(2_000)]
    strings, dicts = [f"key {n}" for n in range(20_000)], [{n: n} for n in range(20_000)]
    items = ctypes.c_void_p.from_address(id(floats) + ITEMS_OFFSET).value or 0
    idle = pages_of(floats)
    others = pages_between(address_of(large), len(large)) | pages_between(items, 8 * len(floats))
    others |= {address_of(buffer) & -PAGE for buffer in small} | pages_of(strings) | pages_of(dicts)
    found = plan(cold(idle | others), types_whose_uses_write())
    assert not found & (others - idle), "these are read without a write"
    # A few pages have blocks that the interpreter keeps for its next floats.
    assert not found if free_threaded() else len(found & idle) > 0.9 * len(idle)
    assert plan(cold(idle | others), None) == idle | others, (
        "a signal that reports reads judges all pages"
    )


def test_a_page_with_an_immortal_object_stays() -> None:
    floats = [float(n) for n in range(100_000)]
    idle, types = pages_of(floats), types_whose_uses_write()
    page = max(plan(cold(idle), types), default=0)
    if free_threaded():
        assert page == 0
        return
    count = ctypes.c_uint32.from_address(
        next(id(item) for item in floats if id(item) & -PAGE == page)
    )
    before, count.value = count.value, 0xFFFFFFFF
    found = plan(cold(idle), types)
    count.value = before
    # Before 3.12 every object's count is written.
    assert (page in found) is (sys.version_info < (3, 12))


def test_the_tail_of_a_hot_object_stays() -> None:
    tuples = [(n,) * 7 for n in range(100_000)]
    pages, types = pages_of(tuples), types_whose_uses_write()
    found = plan(cold(pages), types)
    # The last item of a tuple may be on the page after the one with its count.
    last = {
        (id(item) + tuple.__basicsize__ + 6 * tuple.__itemsize__ & -PAGE, id(item) & -PAGE)
        for item in tuples
    }
    tails = {page for page, head in last if page != head and page in found and head in pages}
    assert bool(tails) is not free_threaded()
    heads = {page - PAGE for page in tails}
    assert not plan({**cold(pages), **dict.fromkeys(heads, 100.0)}, types) & tails


def test_a_refused_page_is_rechecked_after_use() -> None:
    floats = [float(n) for n in range(100_000)]
    idle, types = pages_of(floats), types_whose_uses_write()
    page = max(plan(cold(idle), types), default=0)
    known = array("Q", types)
    table = NativeTable(lambda: known)
    table.inner.see(cold(idle), 1.0)
    table.judge(1)
    del known[:]
    assert not table.coldest_fast(1, 1, 1 << 20)
    known.extend(types)
    assert not table.coldest_fast(1, 1, 1 << 20)
    table.inner.see(cold({page} if page else set()), 1.0)
    assert set(table.coldest_fast(1, 1, 1 << 20)) == ({page} if page else set())


def test_every_signal_says_what_it_can_judge() -> None:
    signal = make_signal(Settings())
    try:
        assert signal.judged() == types_whose_uses_write()
    finally:
        signal.close()
    addresses = set(types_whose_uses_write())
    assert not addresses & {id(str), id(dict), id(type)}
    assert (id(float) in addresses) is not free_threaded()


def huge_mapping() -> tuple[mmap.mmap, int]:
    """Returns memory of which the kernel makes huge pages, if it makes any, and its address."""
    memory = mmap.mmap(-1, 16 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    memory[:] = b"x" * len(memory)
    return memory, ctypes.addressof(ctypes.c_char.from_buffer(memory))


def test_huge_pages_stay_whole() -> None:
    memory, start = huge_mapping()
    before = huge_bytes(start)
    stop, other = os.pipe()
    table, tracker = NativeTable(), extension().Tracker("uffd-wp")
    for _ in range(3):
        tracker.sample(table.inner, 10**6, 10**6, 1 << 20, 0.5, stop)
        assert huge_bytes(start) == before
    tracker.close()
    assert huge_bytes(start) == before
    # Memory in small pages is monitored as before.
    known = pages_between(start, len(memory)) & set(table.pages()[0])
    assert len(known) * PAGE == len(memory) - before
    os.close(stop)
    os.close(other)


def test_a_newly_huge_page_stays() -> None:
    memory, start = huge_mapping()
    pages = pages_between(start, len(memory))
    assert len(plan(cold(pages), None)) * PAGE == len(memory) - huge_bytes(start)


def test_numbers_convert_outside_the_table_lock(program: Program) -> None:
    # A separate program: a thread that waits for the table's lock while it holds the interpreter's
    # would hang.
    printed = program(
        """
from tierwise.emt.support import extension
table = extension().Table()
class Asks:
    def __float__(self):
        return float(len(table.pages()[0]))
table.see({4096: 1.0, 8192: Asks()}, 0.5)
print(len(table))
"""
    )
    assert printed.stdout == "2\n"


def test_a_table_update_is_all_or_nothing() -> None:
    class Grows:
        def __float__(self) -> float:
            pages.update({n * PAGE: 1.0 for n in range(10, 1000)})
            raise ValueError("no number")

    pages = cast("dict[int, float]", {PAGE: 1.0, 2 * PAGE: Grows()})
    table = NativeTable()
    with pytest.raises(ValueError, match="no number"):
        table.inner.see(pages, 0.5)
    assert len(table) == 0
    with pytest.raises(TypeError):
        table.inner.see({PAGE: 1.0, "two": 1.0}, 0.5)  # type: ignore[dict-item]
    assert len(table) == 0


class SevenFaults:
    """A tracker whose sampling costs the program seven faults of a hundredth of a second each."""

    fault_ns = 10**7

    def __init__(self, name: str) -> None:
        self.name = name

    def sample(self, *_: object) -> tuple[int, int, int, int, int, int]:
        # Ten pages: five were touched in their windows, and two others stayed protected from before
        # and were touched.
        return (10, 5, 7, 0, 0, 0)


def test_every_first_touch_is_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tierwise.emt.signals.pages.extension", lambda: SimpleNamespace(Tracker=SevenFaults)
    )
    signal = UffdWp(budget=0.02, interval_s=0.25)
    table = NativeTable()
    ledger = Ledger(budget=0.02)
    sampled = signal.sample(table, 0.25, -1)
    assert sampled.fault_s == pytest.approx(0.07)
    ledger.add(program_s=1.0, spent_s=sampled.fault_s)
    assert ledger.overdrawn
    assert ledger.overhead == pytest.approx(0.07)
    # The debt ends with the last fault's cost, less the credit at the start of a run.
    earns = 0.02 * (1.0 - RESERVE)
    ledger.add(program_s=(0.07 - CREDIT_S) / earns - 1.0 - 1e-6, spent_s=0.0)
    assert ledger.overdrawn
    ledger.add(program_s=2e-6, spent_s=0.0)
    assert not ledger.overdrawn
