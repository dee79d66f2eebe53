"""Tests of the extension's page table. reproduction/tests compares it with the paper's."""

import ctypes
import mmap
from array import array

import pytest
from tierwise.emt.native import NativeTable

PAGE = 4096


def test_a_table_is_small() -> None:
    table = NativeTable()
    table.inner.see({n * PAGE: 1.0 for n in range(100_000)}, 0.5)
    assert table.memory_bytes() < 0.003 * 100_000 * PAGE


def test_pages_that_are_gone_are_forgotten() -> None:
    table = NativeTable()
    with mmap.mmap(-1, 64 * PAGE, flags=mmap.MAP_PRIVATE) as memory:
        memory[:] = b"x" * len(memory)
        start = _address(memory)
        table.inner.see({start + n * PAGE: 1.0 for n in range(64)}, 0.5)
        table.locate(1, 1 << 20)
        assert len(table) == 64
    table.locate(1, 1 << 20)
    assert len(table) == 0
    assert table.memory_bytes() < 4096


def _address(memory: object) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))  # type: ignore[arg-type]


def test_heat_is_a_mean_by_address() -> None:
    table = NativeTable()
    table.inner.see({n * PAGE: float(n) for n in range(8)}, 1.0)
    assert list(array("f", table.inner.heat(4))) == [0.5, 2.5, 4.5, 6.5]
    with pytest.raises(ValueError, match="0 bins"):
        table.inner.heat(0)
    assert list(array("f", NativeTable().inner.heat(2))) == [0.0, 0.0]


def test_a_number_may_read_the_table() -> None:
    table = NativeTable()

    class Asking(float):
        def __float__(self) -> float:
            raise AssertionError("a float is read without a call of its methods")

    class Number:
        def __float__(self) -> float:
            return float(len(table.pages()[0]))

    table.inner.see({PAGE: Number(), 2 * PAGE: Asking(3.0)}, 1.0)  # type: ignore[dict-item]
    assert (table.hotness(PAGE), table.hotness(2 * PAGE)) == (0.0, 3.0)


def test_coldness_counts_checks_not_rounds() -> None:
    table = NativeTable()
    table.inner.see({PAGE: 0.0}, 0.5)
    for _ in range(3):
        table.judge(1)
    assert not table.coldest_fast(1, 2, 9)
    table.inner.see({PAGE: 0.0}, 0.5)
    table.judge(1)
    assert list(table.coldest_fast(1, 2, 9)) == [PAGE]


def test_the_coldest_pages_are_demoted_first() -> None:
    warm, dead = range(0, 100), range(100, 300)
    table = NativeTable()
    table.inner.see({n * PAGE: 0.5 if n in warm else 0.0 for n in (*warm, *dead)}, 1.0)
    chosen = [address // PAGE for address in table.coldest_fast(1, 0, 250)]
    assert set(chosen[:200]) == set(dead), (
        "pages that are never used move before a page that is used at times"
    )
    assert chosen[:200] != sorted(chosen[:200])


def test_failed_moves_double_the_rest() -> None:
    table = NativeTable()
    table.inner.see({PAGE: 0.0}, 1.0)
    rests = []
    for _ in range(9):
        rests.append(0)
        table.refuse(array("Q", [PAGE]))
        table.judge(1)
        while not table.coldest_fast(1, 0, 1):
            rests[-1] += 1
            table.judge(1)
    assert rests == [1, 2, 4, 8, 16, 32, 64, 64, 64]
    table.place(array("Q", [PAGE]), fast=True)
    table.refuse(array("Q", [PAGE]))
    table.judge(1)
    table.judge(1)
    assert list(table.coldest_fast(1, 0, 1)) == [PAGE]


def test_checked_pages_alone_cool() -> None:
    table = NativeTable()
    table.inner.see({PAGE: 8.0, 2 * PAGE: 8.0}, 1.0)
    table.inner.check(array("Q", [PAGE, 3 * PAGE]), array("f", [0.0, 4.0]), 0.5)
    assert [table.hotness(n * PAGE) for n in (1, 2, 3)] == [4.0, 8.0, 2.0]
    with pytest.raises(ValueError, match="2 addresses and 1 numbers"):
        table.inner.check(array("Q", [PAGE, 3 * PAGE]), array("f", [0.0]), 0.5)
