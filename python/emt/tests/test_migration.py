"""Tests of rounds of migration without a second node: a dict replaces the kernel."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from tierwise.emt.demotion import Eager, Lazy
from tierwise.emt.native import NativeTable
from tierwise.emt.policy.eagerness import Reading
from tierwise.emt.policy.migration import Migration
from tierwise.emt.policy.moving import BATCH_PAGES, BatchMover

PAGE = 4096


class FakeKernel:
    """Pages on nodes; some do not move on any request."""

    def __init__(
        self, on_node: dict[int, int], stuck: Sequence[int] = (), room: dict[int, int] | None = None
    ) -> None:
        self.on_node = on_node
        self.stuck = set(stuck)
        self.room = room or {}
        self.batches: list[int] = []

    def move(self, addresses: array[int], node: int) -> list[int]:
        self.batches.append(len(addresses))
        for address in addresses:
            left = self.room.get(node, 10**9)
            if address not in self.stuck and left > 0:
                self.room[node] = left - 1
                self.room[self.on_node[address]] = self.room.get(self.on_node[address], 10**9) + 1
                self.on_node[address] = node
        # A status of success, which the kernel also returns for pages that it only added to its
        # list.
        return [node] * len(addresses)

    def nodes(self, addresses: array[int]) -> list[int]:
        return [self.on_node.get(address, -2) for address in addresses]


def table_of(fast: dict[int, float], slow: dict[int, float]) -> NativeTable:
    table = NativeTable()
    see(table, {**fast, **slow})
    table.place(array("Q", [number * PAGE for number in slow]), fast=False)
    return table


def see(table: NativeTable, pages: dict[int, float]) -> None:
    """Takes the hotness of pages by number."""
    table.inner.see({number * PAGE: hotness for number, hotness in pages.items()}, 1.0)


def kernel_of(fast: dict[int, float], slow: dict[int, float], **more: object) -> FakeKernel:
    nodes = {**{n * PAGE: 0 for n in fast}, **{n * PAGE: 1 for n in slow}}
    return FakeKernel(nodes, **more)  # type: ignore[arg-type]


def test_demotion_makes_room_for_hot_pages() -> None:
    fast = {**{n: 0.0 for n in range(10)}, **{n: 100.0 for n in range(10, 14)}}
    slow = {20: 300.0, 21: 200.0, 22: 0.0}
    kernel = kernel_of(fast, slow)
    done = Migration(table_of(fast, slow), BatchMover(kernel, [0], [1]), Eager(), 0).round(
        Reading(), free_fast_pages=1
    )
    assert (done.threshold, done.hot, done.demoted, done.promoted, done.failed) == (1, 6, 1, 2, 0)
    assert kernel.on_node[20 * PAGE] == kernel.on_node[21 * PAGE] == 0
    assert kernel.on_node[22 * PAGE] == 1
    assert sum(kernel.on_node[n * PAGE] == 1 for n in range(10)) == 1, (
        "one of the coldest pages moves"
    )
    assert all(kernel.on_node[n * PAGE] == 0 for n in range(10, 14))


def test_a_full_fast_tier_gets_no_promotion() -> None:
    fast, slow = {1: 500.0}, {2: 900.0, 3: 0.0}
    kernel = kernel_of(fast, slow)
    done = Migration(table_of(fast, slow), BatchMover(kernel, [0], [1]), Eager(), 0).round(
        Reading(), free_fast_pages=0
    )
    assert done.promoted <= done.demoted


def test_the_reserve_stays_free() -> None:
    fast, slow = {n: 0.0 for n in range(30)}, {n: 900.0 for n in range(40, 45)}
    kernel = kernel_of(fast, slow)
    migration = Migration(
        table_of(fast, slow), BatchMover(kernel, [0], [1]), Eager(), reserve_pages=10
    )
    done = migration.round(Reading(), free_fast_pages=12)
    assert (done.demoted, done.promoted) == (3, 5)


def test_pages_are_exchanged_where_the_reserve_is_not_there() -> None:
    fast, slow = {n: 0.0 for n in range(30)}, {40: 900.0}
    kernel = kernel_of(fast, slow)
    migration = Migration(
        table_of(fast, slow), BatchMover(kernel, [0], [1]), Eager(), reserve_pages=10
    )
    done = migration.round(Reading(), free_fast_pages=4)
    assert (done.demoted, done.promoted) == (1, 1)


def test_without_a_page_to_promote_none_is_demoted() -> None:
    fast, slow = {n: 0.0 for n in range(30)}, {n: 0.0 for n in range(40, 50)}
    kernel = kernel_of(fast, slow)
    migration = Migration(
        table_of(fast, slow), BatchMover(kernel, [0], [1]), Eager(), reserve_pages=10
    )
    done = migration.round(Reading(), free_fast_pages=0)
    assert (done.demoted, done.promoted) == (0, 0)
    assert kernel.batches == []


def test_lazy_demotion_waits_for_a_second_sampling() -> None:
    fast, slow = {n: 0.0 for n in range(5)}, {9: 900.0}
    table, kernel = table_of(fast, slow), kernel_of(fast, slow)
    migration = Migration(table, BatchMover(kernel, [0], [1]), Lazy(), 0)
    assert migration.round(Reading(), free_fast_pages=0).demoted == 0
    assert migration.round(Reading(), free_fast_pages=0).demoted == 0, "a round does not sample"
    see(table, {**fast, **slow})
    second = migration.round(Reading(), free_fast_pages=0)
    assert (second.demoted, second.promoted) == (1, 1)


def test_a_used_page_is_not_demoted() -> None:
    fast, slow = {1: 0.0, 2: 0.0, 3: 0.0, 4: 0.0}, {9: 900.0}
    table, kernel = table_of(fast, slow), kernel_of(fast, slow)
    migration = Migration(table, BatchMover(kernel, [0], [1]), Lazy(), 0)
    migration.round(Reading(), free_fast_pages=0)
    see(table, {1: 800.0, 9: 900.0})
    migration.round(Reading(), free_fast_pages=0)
    assert kernel.on_node[PAGE] == 0
    assert sum(kernel.on_node[n * PAGE] == 1 for n in (2, 3, 4)) == 1


def test_placement_is_verified_and_failures_are_counted() -> None:
    fast, slow = {n: 0.0 for n in range(6)}, {9: 900.0, 10: 900.0}
    kernel = kernel_of(fast, slow, stuck=[0, 10 * PAGE])
    table = table_of(fast, slow)
    done = Migration(table, BatchMover(kernel, [0], [1]), Eager(), 0).round(
        Reading(), free_fast_pages=2
    )
    assert done.failed == 1
    assert done.promoted == 1
    assert table.histogram().slow[9] == 1, "the page that was not promoted still counts as slow"


def test_batched_moves_continue_on_the_next_node() -> None:
    count = BATCH_PAGES * 2 + 7
    kernel = FakeKernel({n * PAGE: 0 for n in range(count)}, room={1: 5})
    arrived = BatchMover(kernel, [0], [1, 2]).move(
        array("Q", [n * PAGE for n in range(count)]), fast=False
    )
    assert len(arrived) == count
    assert sum(node == 1 for node in kernel.on_node.values()) == 5
    assert max(kernel.batches) == BATCH_PAGES


def test_a_table_without_pages_moves_nothing() -> None:
    done = Migration(NativeTable(), BatchMover(FakeKernel({}), [0], [1]), Eager(), 0).round(
        Reading(), free_fast_pages=0
    )
    assert (done.promoted, done.demoted, done.failed) == (0, 0, 0)


def test_unmovable_pages_delay_no_others() -> None:
    fast = {n: 0.0 for n in range(200)}
    stuck, free = {n: 900.0 for n in range(300, 350)}, {n: 600.0 for n in range(400, 450)}
    kernel = kernel_of(fast, {**stuck, **free}, stuck=[n * PAGE for n in (*stuck, *range(50))])
    migration = Migration(
        table_of(fast, {**stuck, **free}), BatchMover(kernel, [0], [1]), Eager(), 0
    )
    room = 0
    for _ in range(10):
        done = migration.round(Reading(), free_fast_pages=room, max_moves=50)
        room += done.demoted - done.promoted
    assert sum(kernel.on_node[n * PAGE] == 0 for n in free) == len(free)
