"""Tests that the extension's page table gives the same answers as the paper's, in plain Python."""

import random
from array import array

import pytest
from emt_reproduction.policy.page_table import PageTable
from tierwise.emt.native import NativeTable
from tierwise.emt.policy.buckets import bucket

PAGE = 4096


@pytest.mark.parametrize("seed", range(3))
def test_both_page_tables_agree(seed: int) -> None:
    draw = random.Random(seed)
    plain, native = PageTable(PAGE, k=0.5), NativeTable()
    addresses = sorted(draw.sample(range(1 << 16), 400))
    for _ in range(6):
        seen = {
            n * PAGE: float(draw.choice([0, 1, 3, 8, 60, 500, 3000]))
            for n in draw.sample(addresses, 200)
        }
        plain.see_pages(seen)
        native.inner.see(seen, 0.5)
        placed = array("Q", [n * PAGE for n in draw.sample(addresses, 60)])
        fast = draw.random() < 0.5
        plain.place(placed, fast)
        native.place(placed, fast)
        h, patience, limit = draw.randrange(11), draw.randrange(1, 4), draw.randrange(300)
        plain.judge(h)
        native.judge(h)
        assert native.histogram() == plain.histogram()
        assert native.coldest_fast(h, patience, limit) == plain.coldest_fast(h, patience, limit)
        assert native.hottest_slow(h, limit) == plain.hottest_slow(h, limit)
        assert len(native) == len(plain)
    found, hotness, _ = native.pages()
    assert found == plain.addresses()
    for address, value in zip(found, hotness, strict=True):
        assert bucket(value) == bucket(plain.hotness(address))
        assert native.hotness(address) == pytest.approx(plain.hotness(address))


def test_coldness_counts_checks_not_rounds() -> None:
    for table in (PageTable(PAGE), NativeTable()):
        see = (
            table.see_pages
            if isinstance(table, PageTable)
            else lambda pages, table=table: table.inner.see(pages, 0.5)
        )
        see({PAGE: 0.0})
        for _ in range(3):
            table.judge(1)
        assert not table.coldest_fast(1, 2, 9)
        see({PAGE: 0.0})
        table.judge(1)
        assert list(table.coldest_fast(1, 2, 9)) == [PAGE]


def test_the_coldest_pages_are_demoted_first() -> None:
    warm, dead = range(0, 100), range(100, 300)
    for table in (PageTable(PAGE, k=1.0), NativeTable()):
        pages = {n * PAGE: 0.5 if n in warm else 0.0 for n in (*warm, *dead)}
        table.see_pages(pages) if isinstance(table, PageTable) else table.inner.see(pages, 1.0)
        chosen = [address // PAGE for address in table.coldest_fast(1, 0, 250)]
        assert set(chosen[:200]) == set(dead), (
            "pages that are never used move before a page that is used at times"
        )
        assert chosen[:200] != sorted(chosen[:200])


def test_failed_moves_double_the_rest() -> None:
    for table in (PageTable(PAGE, k=1.0), NativeTable()):
        table.see_pages({PAGE: 0.0}) if isinstance(table, PageTable) else table.inner.see(
            {PAGE: 0.0}, 1.0
        )
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
