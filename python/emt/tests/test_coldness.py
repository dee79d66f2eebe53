"""Cold and hot memory by type, allocation site and owner."""

from __future__ import annotations

import gc
import json
import sys
from array import array
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from conftest import Program
from test_contents import Thing
from tierwise.emt import cold_report
from tierwise.emt.coldness import Coldness, coldness
from tierwise.emt.memory import memory_of
from tierwise.emt.native import NativeTable
from tierwise.emt.owners import Owned, owned
from tierwise.emt.signals.uses import types_whose_uses_write
from tierwise.emt.support import free_threaded

PAGE = 4096
#: As many objects as a test's process may have.
ALL = 1 << 30


class Cache:
    def __init__(self) -> None:
        self.entries = {f"key {n}": bytearray(100) for n in range(50)}
        self.log = [bytearray(50)]


@pytest.fixture
def module() -> Iterator[ModuleType]:
    """A module of a program."""
    made = ModuleType("shop")
    sys.modules["shop"] = made
    yield made
    del sys.modules["shop"]


def owners_of(ids: list[int]) -> list[str]:
    """Returns the owners of objects, which no local variable may hold."""
    found = {id(one.thing): one.owner for one in owned(ALL) if id(one.thing) in ids}
    return [found[number] for number in ids]


def test_owners_are_modules_and_attributes(module: ModuleType) -> None:
    cache = Cache()
    module.CACHE, module.LIMITS = cache, {"depth": [1.5]}  # type: ignore[attr-defined]
    ids = [id(cache.entries["key 7"]), id(cache.log[0]), id(module.LIMITS["depth"][0])]
    del cache
    assert owners_of(ids) == ["shop.CACHE.entries", "shop.CACHE.log", "shop.LIMITS"]


def test_local_variables_and_closures_own(module: ModuleType) -> None:
    held = [bytearray(70)]

    def closure() -> Any:
        return kept

    kept = [bytearray(60)]
    module.FUNCTION = closure  # type: ignore[attr-defined]
    own, inner = held[0], kept[0]
    found = {id(one.thing): one.owner for one in owned(ALL)}
    assert found[id(own)] == "test_coldness.test_local_variables_and_closures_own() own"
    assert found[id(held)] == "test_coldness.test_local_variables_and_closures_own() held"
    assert found[id(inner)].startswith("test_coldness.test_local_variables")


def test_every_object_is_found_once() -> None:
    found = [id(one.thing) for one in owned(ALL)]
    assert len(found) == len(set(found))


def test_a_large_list_stands_for_all_its_items(module: ModuleType) -> None:
    module.ITEMS = [float(n) for n in range(50_000)]  # type: ignore[attr-defined]
    weights = sum(one.weight for one in owned(ALL) if one.owner == "shop.ITEMS")
    assert 45_000 < weights < 55_000


def test_finding_owners_runs_no_code(module: ModuleType) -> None:
    module.THINGS = [object.__new__(Thing) for _ in range(5)]  # type: ignore[attr-defined]
    module.THING = object.__new__(Thing)  # type: ignore[attr-defined]
    kinds = [type(one.thing) for one in owned(ALL) if one.owner.startswith("shop.")]
    assert sum(kind is Thing for kind in kinds) == 6


def test_a_lazy_module_stays_unloaded(module: ModuleType) -> None:
    class Lazy(ModuleType):
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(f"{name} was read")

    lazy = Lazy("lazy_shop")
    object.__setattr__(lazy, "ITEMS", [3.25])
    sys.modules["lazy_shop"] = lazy
    try:
        owners = {one.owner for one in owned(ALL)}
    finally:
        del sys.modules["lazy_shop"]
    assert "lazy_shop.ITEMS" in owners


def pages_of(thing: Any) -> list[int]:
    """Returns the pages of an object's data."""
    start, size = memory_of(thing)[-1]
    return list(range(start - start % PAGE, start + size, PAGE))


def measured(judged: array[int] | None = None) -> tuple[Coldness, int]:
    """Returns the coldness of two buffers, one of which was used, and the size of each."""
    cold, hot = (array("d", bytes(1 << 20)) for _ in range(2))
    idle = {**dict.fromkeys(pages_of(cold), 600), **dict.fromkeys(pages_of(hot), 2)}
    # A page with data of both counts for one of them: the tests leave such a page out.
    addresses = array("Q", sorted(idle))
    found = coldness(
        addresses,
        array("I", [idle[address] for address in addresses]),
        "uffd-wp",
        1000.0,
        judged,
        [Owned(cold, 1, "shop.OLD"), Owned(hot, 1, "shop.NEW")],
    )
    return found, 1 << 20


def test_bytes_are_cold_where_pages_are_idle() -> None:
    found, size = measured()
    old, new = found.owners["shop.OLD"], found.owners["shop.NEW"]
    assert abs(old.cold - size) <= PAGE and old.idle_s == 600
    assert new.cold <= PAGE and abs(new.size - size) <= PAGE
    assert found.types["array.array"].size == old.size + new.size
    assert sum(use.cold for use in found.stacks.values()) == old.cold + new.cold
    assert found.cold_after_s == 60.0
    assert found.cold >= size and found.tracked >= 2 * size


def test_a_short_run_has_a_shorter_time() -> None:
    found = coldness(array("Q"), array("I"), "uffd-wp", 10.0, None, [])
    assert (found.cold_after_s, found.named, found.tracked) == (5.0, 0, 0)
    assert cold_report.text(found)


def test_writes_alone_do_not_call_buffers_unread() -> None:
    by_writes, _ = measured(types_whose_uses_write())
    assert not by_writes.owners["shop.OLD"].reads_seen
    assert "may have been read" in cold_report.text(by_writes)
    by_reads, _ = measured(None)
    assert by_reads.owners["shop.OLD"].reads_seen
    assert "may have been read" not in cold_report.text(by_reads)
    number = 1e300
    found = coldness(
        array("Q", [id(number) & -PAGE]),
        array("I", [100]),
        "uffd-wp",
        1000.0,
        types_whose_uses_write(),
        [Owned(number, 1, "shop.NUMBER")],
    )
    assert found.owners["shop.NUMBER"].reads_seen is not free_threaded()


def test_all_formats_have_the_same_bytes() -> None:
    found, _ = measured()
    cold = found.owners["shop.OLD"].cold
    table = json.loads(cold_report.to_json(found))
    assert table["format"] == 1
    assert [row["name"] for row in table["owners"]] == ["shop.OLD", "shop.NEW"]
    assert table["owners"][0]["cold_bytes"] == cold
    assert sum(row["cold_bytes"] for row in table["types"]) == sum(
        use.cold for use in found.stacks.values()
    )
    text = cold_report.text(found)
    assert f"{cold_report.human_bytes(cold):>10}" in text
    assert "- 1.0 MiB of array.array of shop.OLD, untouched for 10 min" in text
    (line,) = [line for line in cold_report.folded(found).splitlines() if "OLD" in line]
    assert line.endswith(f" {cold}") and line.startswith("shop.OLD;")
    page = cold_report.page_parts(found)
    assert "shop.OLD" in page and 'class="flame"' in page


def test_names_of_the_program_are_escaped() -> None:
    thing = array("d", bytes(1 << 16))
    pages = array("Q", pages_of(thing))
    hostile = "a;b <script>alert('x')</script>\""
    found = coldness(
        pages, array("I", [99] * len(pages)), "uffd-wp", 1e3, None, [Owned(thing, 1, hostile)]
    )
    assert "<script>" not in cold_report.page_parts(found)
    (line,) = cold_report.folded(found).splitlines()
    assert line.count(";") == 2


def test_the_table_knows_idle_times() -> None:
    table = NativeTable()
    table.inner.see({PAGE: 1.0, 2 * PAGE: 1.0}, 0.5)

    def idle() -> list[int]:
        return list(array("I", table.inner.idle()[1]))

    while idle()[1] < 2:
        gc.collect()
    table.inner.see({PAGE: 1.0, 2 * PAGE: 0.0}, 0.5)
    first, second = idle()
    assert first < second
    table.inner.check(array("Q", [2 * PAGE]), array("f", [1.0]), 0.5)
    assert idle()[1] < 2 or idle()[0] >= 2


def test_sites_and_owners_of_a_program(program: Program, tmp_path: Any) -> None:
    printed = program(
        f"""
        import time
        import tierwise.emt as emt
        from tierwise.emt.process import PROCESS
        def work():
            for _ in range(100):
                sum(range(10_000))
        def store_is_cold():
            use = PROCESS.last().coldness().owners.get("__main__.STORE")
            return use is not None and use.size > 8_000_000 and use.cold > 0.6 * use.size
        with emt.tiering(sample_interval=0.02, overhead_budget=1.0) as t:
            start = time.monotonic()
            STORE = [[n, n] for n in range(200_000)]
            while t.stats().intervals < 20:
                work()
            while not store_is_cold():
                # The answer used the objects. They are idle for half of the run again after as
                # long as it has lasted, and a half for what the signal sees late.
                now = time.monotonic()
                while time.monotonic() - now < 1.5 * (now - start):
                    work()
        for name in ("cold.json", "cold.txt", "cold.folded", "cold.html"):
            t.report({str(tmp_path)!r} + "/" + name)
        """,
        "-X", "tracemalloc",
    )  # fmt: skip
    assert printed.stderr == ""
    found = json.loads((tmp_path / "cold.json").read_text(encoding="utf-8"))
    store = next(row for row in found["owners"] if row["name"] == "__main__.STORE")
    # 200,000 lists of 40 bytes, and the block of each with two items. The reports were written
    # after the program had examined them.
    assert store["cold_bytes"] + store["hot_bytes"] > 8_000_000
    site = max(found["sites"], key=lambda row: row["cold_bytes"] + row["hot_bytes"])
    assert site["name"].endswith("program.py:13"), site
    assert "__main__.STORE" in (tmp_path / "cold.txt").read_text(encoding="utf-8")
    assert "__main__.STORE;" in (tmp_path / "cold.folded").read_text(encoding="utf-8")
    assert "Cold memory" in (tmp_path / "cold.html").read_text(encoding="utf-8")
