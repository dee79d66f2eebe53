"""The nodes of the heaps: bound to a tier, borrowed and exchanged. The allocators stay hooked, so
each test has an interpreter of its own."""

import pytest
from conftest import Program
from tierwise.emt.support import free_threaded

pytestmark = pytest.mark.skipif(
    free_threaded(), reason="test_profile has the refusal of builds without the lock"
)


def test_a_node_that_does_not_exist_is_refused(program: Program) -> None:
    program("""
        import tierwise.emt as emt
        try:
            emt.segregate(slow_nodes=[63])
        except emt.Unavailable as error:
            assert "63" in str(error)
        else:
            raise AssertionError
        with emt.cold():
            pass
    """)


def test_tracking_leaves_bound_heaps_and_sees_the_others(program: Program) -> None:
    program("""
        import tierwise.emt as emt
        from tierwise.emt.heaps import HEAPS
        from tierwise.emt.held import HELD
        from tierwise.emt.topology import Topology

        # Both tiers on the machine's only node, of which nothing is borrowed.
        HEAPS.start(Topology(fast=(0,), slow=(0,)), reserve_bytes=1 << 50)
        with emt.cold():
            items = [[n] for n in range(50_000)]
        (start, end), = [(use.start, use.end) for use in emt.heaps().values() if use.used]
        assert list(HELD.ranges()) == [start, end]
        with emt.tiering(sample_interval=0.02, overhead_budget=1.0):
            for _ in range(20):
                for item in items:
                    item[0] += 1
    """)


def test_the_cold_heap_borrows_and_makes_way(program: Program) -> None:
    program("""
        import tierwise.emt as emt
        from tierwise.emt.heaps import HEAPS
        from tierwise.emt.topology import Topology

        MIB = 1 << 20
        # Both tiers on the machine's only node, most of which is free.
        topology = Topology(fast=(0,), slow=(0,))

        def borrowed():
            cold = emt.heaps()["cold"]
            return (cold.fast_end - cold.start) // MIB

        HEAPS.start(topology, reserve_bytes=0)
        with emt.cold():
            items = [bytes(1000) for _ in range(100_000)]
        all_of_it = borrowed()
        assert all_of_it >= 100, all_of_it
        (start, _), = HEAPS.bound_slow()
        assert start == emt.heaps()["cold"].start + all_of_it * MIB and HEAPS.held() == []
        # Nothing moves while there is more free memory than others want.
        HEAPS.follow(MIB, None)
        assert borrowed() == all_of_it
        # The daemon leaves this process nothing more.
        HEAPS.follow(MIB, 0)
        some = borrowed()
        assert 0 < some < all_of_it, (some, all_of_it)
        (start, end), = HEAPS.held()
        assert start == emt.heaps()["cold"].start + some * MIB and end == emt.heaps()["cold"].end
        # Others want more than is free.
        HEAPS.follow(topology.free_fast_bytes() + 200 * MIB, None)
        assert borrowed() == 0
        # It does not come back at once.
        HEAPS.follow(0, None)
        assert borrowed() == 0
        assert items[777] == bytes(1000)
    """)


@pytest.mark.parametrize(
    "growth",
    [
        "items = [[n] for n in range(400_000)]",  # arenas
        "items = bytes(64 << 20)",  # a large block
        "with emt.hot(): items = [[n] for n in range(400_000)]",  # the hot heap
    ],
)
def test_the_cold_heap_makes_way_for_growth(program: Program, growth: str) -> None:
    program(f"""
        import tierwise.emt as emt
        from tierwise.emt.heaps import HEAPS
        from tierwise.emt.topology import Topology

        topology = Topology(fast=(0,), slow=(0,))
        # Of the free memory all but 400 MiB stay free, so that the heap borrows of those.
        HEAPS.start(topology, reserve_bytes=topology.free_fast_bytes() - (400 << 20))
        with emt.cold():
            cold = [bytes(1000) for _ in range(100_000)]
        lent = emt.heaps()["cold"].fast_end
        assert lent > emt.heaps()["cold"].start
        # The daemon leaves this process as much as it has borrowed, and little more.
        HEAPS.follow(0, 20 << 20)
        assert emt.heaps()["cold"].fast_end == lent
        {growth}
        assert emt.heaps()["cold"].fast_end < lent
    """)


#: Heaps of which a part is used, once a page, and in the loop of a test. One node has no rounds of
#: migration, of which the check is a part: the callback, which the same thread calls, has it.
USED_HEAPS = """
    import tierwise.emt as emt
    from tierwise.emt.heaps import HEAPS
    from tierwise.emt.process import PROCESS
    from tierwise.emt.topology import Topology

    class Item:
        __slots__ = ("used",)

    def check(stats):
        PROCESS.last()._check_heaps()

    HEAPS.start(Topology(fast=(0,), slow=(0,)))
    made = {}
    for name, heap in (("cold", emt.cold()), ("hot", emt.hot())):
        with heap:
            made[name] = [Item() for _ in range(100_000)]
    # Of each page an item, and of most pages none: idle memory does not hide the used one.
    used = {name: items[: len(items) // 4 : 70] for name, items in made.items()}

    def work(often, seldom):
        for _ in range(300):
            for item in often:
                item
        for item in seldom:
            item
"""


def test_heaps_that_are_wrong_exchange_their_nodes(program: Program) -> None:
    program(
        USED_HEAPS
        + """
    with emt.tiering(sample_interval=0.02, overhead_budget=1.0, callback=check):
        segregation = PROCESS.last()._segregation
        while segregation.swaps == 0 and emt.stats().intervals < 3000:
            work(used["cold"], used["hot"])
        assert segregation.swaps == 1, emt.stats()
    after = emt.heaps()
    assert after["cold"].fast_end == after["cold"].limit
    # Those on the slow nodes borrow; the others do not.
    assert after["hot"].fast_end < after["hot"].limit
    with emt.hot():
        more = [Item() for _ in range(100_000)]
    assert emt.heap_of(more[-1]) == "hot"
    """
    )


def test_heaps_that_are_right_stay(program: Program) -> None:
    program(
        USED_HEAPS
        + """
    with emt.tiering(sample_interval=0.02, overhead_budget=1.0, callback=check):
        segregation = PROCESS.last()._segregation
        while emt.stats().intervals < 100:
            work(used["hot"], used["cold"])
        assert segregation.swaps == 0
        heap = emt.heaps()["hot"]
        assert len(PROCESS.last().table.spread(heap.start, heap.end, 100)) >= 50
    assert emt.heaps()["hot"].fast_end == emt.heaps()["hot"].limit
    """
    )
