"""Tests of placing objects by their addresses. A dict replaces the kernel where two nodes are
needed; moves onto the machine's own node are real."""

from __future__ import annotations

import gc
import mmap
import threading
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tierwise.emt as emt
from conftest import Program
from numpy._core.multiarray import get_handler_name
from protection import huge_bytes
from tierwise.emt import placing
from tierwise.emt.buffers import merged, owner_of, ranges_of
from tierwise.emt.held import HELD, Held
from tierwise.emt.native import NativeTable
from tierwise.emt.support import extension
from tierwise.emt.topology import Topology

PAGE, HUGE = 4096, 2 << 20
TWO = Topology((0,), (1,))


class FakeKernel:
    """Two nodes: pages start on node 0, some are absent, and some do not move."""

    def __init__(self, absent: Sequence[int] = (), stuck: Sequence[int] = ()) -> None:
        self.on_node: dict[int, int] = dict.fromkeys(absent, -2)
        self.stuck = set(stuck)

    def move(self, addresses: array[int], node: int) -> list[int]:
        for address in addresses:
            if address not in self.stuck:
                self.on_node[address] = node
        return [node] * len(addresses)

    def nodes(self, addresses: array[int]) -> list[int]:
        return [self.on_node.get(address, 0) for address in addresses]


def pages(thing: object) -> list[int]:
    """Returns the pages that are wholly the data of an object, by its own arithmetic."""
    found: list[int] = []
    for start, end in ranges_of(thing):
        found += range(-(-start // PAGE) * PAGE, end // PAGE * PAGE, PAGE)
    return found


@pytest.fixture(autouse=True)
def nothing_is_held_afterwards() -> Any:
    yield
    gc.collect()
    assert not HELD.ranges()


class Tensor:
    """A tensor as others see it: it exports itself by DLPack only, and not while it records
    gradients."""

    def __init__(self, numbers: Any, records: bool = True, device: int = 1) -> None:
        self.numbers, self.records, self.device = numbers, records, device

    def detach(self) -> Tensor:
        return Tensor(self.numbers, records=False, device=self.device)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.device, 0)

    def __dlpack__(self) -> object:
        if self.records:
            raise BufferError("it records gradients")
        return self.numbers.__dlpack__()


def numbers() -> Any:
    return np.arange(1 << 14, dtype="f8")


def many_strings() -> list[str]:
    return [f"{n:064}" for n in range(1 << 17)]


MANY = range(1 << 20)
#: Objects of 64 KiB of data or more, by their kinds. Those of pyarrow have more: its allocator's
#: memory may be in huge pages, of which no part moves.
KINDS: dict[str, Callable[[], Any]] = {
    "numpy": numbers,
    "numpy, reversed": lambda: numbers()[::-1],
    "numpy, every second column": lambda: numbers().reshape(128, -1)[:, ::2],
    "numpy, read-only": lambda: np.broadcast_to(numbers(), (3, 1 << 14)),
    "numpy, dates": lambda: numbers().astype("datetime64[s]"),
    "numpy, pointers": lambda: numbers().astype(object),
    "bytes": lambda: b"x" * (1 << 16),
    "bytearray": lambda: bytearray(1 << 16),
    "array": lambda: array("d", range(1 << 14)),
    "memoryview": lambda: memoryview(bytearray(1 << 16))[8:],
    "mmap": lambda: mmap.mmap(-1, 1 << 16, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS),
    "arrow buffer": lambda: pa.py_buffer(bytes(1 << 16)),
    "arrow array": lambda: pa.array(MANY),
    "arrow strings": lambda: pa.array(many_strings()),
    "arrow dictionary": lambda: pa.array(many_strings()).dictionary_encode(),
    "arrow chunks": lambda: pa.chunked_array([pa.array(MANY), pa.array(MANY)]),
    "arrow table": lambda: pa.table({"one": MANY, "two": np.arange(1 << 20)}),
    "dlpack": lambda: Tensor(numbers()),
}


@pytest.mark.parametrize("made", KINDS.values(), ids=KINDS.keys())
def test_every_kind_of_buffer_moves(made: Callable[[], Any]) -> None:
    thing = made()
    kernel = FakeKernel()
    slow = placing.place(thing, "slow", TWO, kernel)
    moved = set(kernel.on_node)
    assert moved <= set(pages(thing)), "its own pages move, and no others"
    left = {page // HUGE for page in set(pages(thing)) - moved}
    assert all(huge_bytes(huge * HUGE) for huge in left), "pages of huge pages stay whole"
    assert slow.pages == slow.there == len(moved) >= 15
    assert (slow.absent, slow.elsewhere) == (0, 0)
    fast = placing.place(thing, "fast", TWO, kernel)
    assert fast.there == fast.pages
    assert set(kernel.on_node.values()) == {0}
    assert fast.held == (list(HELD.ranges()) != [])
    del thing


def test_ranges_are_those_of_the_data() -> None:
    numbers: Any = np.arange(100, dtype="i4")
    start = numbers.ctypes.data
    assert ranges_of(numbers) == [(start, start + 400)]
    assert ranges_of(numbers[::-1]) == [(start, start + 400)]
    assert ranges_of(numbers[10:20]) == [(start + 40, start + 80)]
    assert ranges_of(memoryview(numbers)[::-2]) == [(start + 4, start + 400)]
    assert ranges_of(Tensor(numbers[::2])) == [(start, start + 396)]
    assert ranges_of(np.empty((0, 5))) == []
    table = pa.table({"one": numbers, "two": numbers})
    assert ranges_of(table) == [(start, start + 400)], "both columns share the array's memory"


@pytest.mark.parametrize(
    ("thing", "reason"),
    [
        ({1: 2}, "a dict has no buffer; allowed: a NumPy array"),
        ([1, 2], "a list has no buffer"),
        (7, "a int has no buffer"),
        (bytearray(5000), "5000 bytes and no page of its own; allowed: data of 8192 bytes"),
        (np.empty((0, 5)), "0 bytes and no page"),
        (Tensor(np.arange(3), device=2), "device type 2; allowed: 1, a CPU"),
    ],
)
def test_other_objects_are_refused(thing: object, reason: str) -> None:
    # An object of 5000 bytes may have a whole page by chance.
    if isinstance(thing, bytearray) and pages(thing):
        thing = memoryview(thing)[: pages(thing)[0] + PAGE - 1 - ranges_of(thing)[0][0]]
        reason = "no page of its own"
    with pytest.raises(emt.Unplaceable, match=reason):
        placing.place(thing, "slow", TWO, FakeKernel())


def test_a_released_buffer_is_refused() -> None:
    view = memoryview(bytearray(1 << 16))
    view.release()
    with pytest.raises(emt.Unplaceable, match="memoryview: .*released"):
        placing.place(view, "slow", TWO, FakeKernel())


def test_absent_and_stuck_pages_are_counted() -> None:
    thing = np.arange(1 << 14)
    mine = pages(thing)
    kernel = FakeKernel(absent=mine[:3], stuck=mine[5:7])
    found = placing.place(thing, "slow", TWO, kernel)
    assert found == (len(mine), len(mine) - 5, 3, True)
    assert found.elsewhere == 2
    assert placing.where(thing, kernel) == {-1: 3 * PAGE, 0: 2 * PAGE, 1: (len(mine) - 5) * PAGE}


def test_held_memory_is_released_with_its_owner() -> None:
    numbers = np.arange(1 << 15)
    left, right = numbers[: 1 << 14], numbers[1 << 14 :]
    del numbers
    assert placing.place(left, "slow", TWO, FakeKernel()).held
    assert placing.place(right, "slow", TWO, FakeKernel()).held
    assert merged([*ranges_of(left), *ranges_of(right)]) == [tuple(HELD.ranges())]
    del left
    gc.collect()
    assert len(HELD.ranges()) == 2, "the other view keeps the memory"
    placing.place(right[:1024], "auto", TWO)
    low, high = ranges_of(right[:1024])[0]
    assert list(HELD.ranges()) == [low - (1 << 17), low, high, low + (1 << 17)]
    del right
    gc.collect()
    assert not HELD.ranges()


def test_memory_without_references_is_not_held() -> None:
    thing = bytearray(1 << 16)
    assert not placing.place(thing, "slow", TWO, FakeKernel()).held
    assert owner_of(memoryview(memoryview(thing))) is thing


def test_owners_may_end_in_any_thread() -> None:
    held = Held()
    ends = threading.Event()

    def churn() -> None:
        while not ends.is_set():
            held.add(np.empty(1), [(4096, 8192)])

    threads = [threading.Thread(target=churn) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert all(list(held.ranges()) in ([], [4096, 8192]) for _ in range(20_000))
    ends.set()
    for thread in threads:
        thread.join()
    assert not held.ranges()


def test_held_pages_are_never_chosen() -> None:
    table = NativeTable()
    table.inner.see({n * PAGE: 0.0 for n in range(100)}, 1.0)
    table.judge(1)
    table.hold(array("Q", [10 * PAGE, 20 * PAGE, 50 * PAGE, 51 * PAGE]))
    chosen = {address // PAGE for address in table.coldest_fast(1, 1, 1000)}
    assert chosen == set(range(100)) - set(range(10, 20)) - {50}
    table.place(array("Q", [n * PAGE for n in range(100)]), fast=False)
    assert len(table.hottest_slow(0, 1000)) == 89
    table.hold(array("Q"))
    assert len(table.hottest_slow(0, 1000)) == 100


def test_real_moves_reach_this_machines_node() -> None:
    numbers = np.arange(1 << 18)
    found = emt.place(numbers, "fast", fast_nodes=[0])
    assert found.there == found.pages > 500
    assert emt.where(numbers) == {0: found.pages * PAGE}
    assert emt.place(numbers, "auto") == (0, 0, 0, False)
    fresh = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    assert emt.where(fresh) == {-1: 1 << 20}


@pytest.mark.parametrize(
    ("tier", "nodes", "error", "reason"),
    [
        ("quick", {}, ValueError, "tier is 'quick'; allowed: fast, slow, auto"),
        ("slow", {}, emt.Unavailable, "there is no slow node; name slow_nodes"),
        ("slow", {"slow_nodes": [63]}, emt.Unavailable, "node 63, which has no memory"),
        ("slow", {"slow_nodes": 1}, ValueError, "slow_nodes is 1; allowed: a list"),
    ],
)
def test_nonsense_is_refused(
    tier: str, nodes: dict[str, Any], error: type[Exception], reason: str
) -> None:
    numbers = np.arange(1 << 14)
    with pytest.raises(error, match=reason):
        emt.place(numbers, tier, **nodes)
    with pytest.raises(error, match=reason), emt.allocating(tier, **nodes):
        raise AssertionError("the block ran")
    with pytest.raises(ValueError, match="'auto'; allowed: fast, slow"), emt.allocating("auto"):
        raise AssertionError("the block ran")


def test_arrays_of_a_block_have_their_own_pages() -> None:
    with emt.allocating("fast", at_least="64KiB", fast_nodes=[0]):
        large, small = np.full(1 << 16, 7.0), np.arange(100)
        zeros, grown = np.zeros(1 << 16), np.arange(1 << 15)
        grown.resize(1 << 16, refcheck=False)
    outside = np.zeros(1 << 16)
    for thing in (large, zeros, grown):
        assert thing.ctypes.data % PAGE == 0
        assert len(pages(thing)) * PAGE == thing.nbytes
    # The C library's memory may start on a page by chance, so the address proves nothing.
    assert get_handler_name(zeros) == "tierwise.emt"
    assert get_handler_name(outside) == "default_allocator", "the block has ended"
    assert (large == 7.0).all() and not zeros.any() and not grown[1 << 15 :].any()
    assert (grown[: 1 << 15] == np.arange(1 << 15)).all()
    assert emt.where(large) == {0: large.nbytes}
    small.resize(1 << 15, refcheck=False)
    assert (small[:100] == np.arange(100)).all()
    assert emt.where(zeros)[-1] == zeros.nbytes, "zeroed memory is not touched"


def test_the_policy_is_the_arrays_own(program: Program) -> None:
    # numa_maps shows the policy of a mapping.
    printed = program(
        """
        import numpy, tierwise.emt as emt
        with emt.allocating("fast", at_least=1 << 20, fast_nodes=[0]):
            placed = numpy.ones(1 << 20)
        other = numpy.ones(1 << 20)
        def policies():
            return [line.split()[0] for line in open("/proc/self/numa_maps") if "(many)" in line]
        (start,) = policies()
        print(int(start, 16) <= placed.ctypes.data < int(start, 16) + placed.nbytes)
        del placed
        print(policies(), other.sum())
        """
    )
    assert printed.stdout == "True\n[] 1048576.0\n"


def test_allocation_failures_reach_the_program() -> None:
    with emt.allocating("fast", fast_nodes=[0]), pytest.raises(MemoryError):
        np.empty(1 << 58, dtype="i1")


def test_huge_pages_move_only_whole() -> None:
    memory = mmap.mmap(-1, 16 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    memory[:] = b"x" * len(memory)
    (start, end) = ranges_of(memory)[0]
    inner = (start + (1 << 20), end - (1 << 20))
    found = array("Q", extension().own_pages(*inner))
    huge = {page for page in range(*inner, PAGE) if page not in found}
    # The parts that are left out belong to huge pages that reach beyond the range.
    assert all(page // (2 << 20) in (inner[0] // (2 << 20), inner[1] // (2 << 20)) for page in huge)
    assert list(found) == sorted(set(range(*inner, PAGE)) - huge)
