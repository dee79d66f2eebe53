"""Tests of placement by age: the decisions on DAMON's regions, and the order of moves."""

import sys
import unittest
from collections.abc import Sequence
from typing import cast

from tierlab.paths import LAB

sys.path.insert(0, str(LAB / "guest"))
from tierguest.ageing import PAGE_BYTES, PAGES_PER_CALL, Ageing, Ages, batches, decide  # noqa: E402
from tierguest.damon import Damon, Region  # noqa: E402

AGES = Ages(idle_s=3.0)
# The length of DAMON's aggregations.
TENTH_S = 0.1


def _region(start: int, accesses: int, age: int) -> Region:
    return Region(start * PAGE_BYTES, (start + 4) * PAGE_BYTES, accesses, age)


class FakeDamon:
    """A DAMON with regions that a test sets."""

    def __init__(self, regions: list[Region]) -> None:
        self.pid = 7
        self._regions = regions

    def regions(self) -> list[Region]:
        """Returns the test's regions."""
        return self._regions


class Deciding(unittest.TestCase):
    def test_old_goes_down_and_young_goes_up(self) -> None:
        decision = decide([_region(0, 0, 30), _region(4, 1, 5)], AGES, TENTH_S)
        self.assertEqual(decision.demote, [(0, 4 * PAGE_BYTES)])
        self.assertEqual(decision.promote, [(4 * PAGE_BYTES, 4 * PAGE_BYTES)])

    def test_what_was_accessed_a_while_ago_stays(self) -> None:
        decision = decide([_region(0, 0, 29), _region(4, 0, 0)], AGES, TENTH_S)
        self.assertEqual((decision.demote, decision.promote), ([], []))

    def test_access_counts_do_not_change_ages(self) -> None:
        seldom, often = (
            decide([_region(0, accesses, age)], AGES, TENTH_S)
            for accesses, age in ((1, 0), (20, 10))
        )
        self.assertEqual(seldom, often)


class Moving(unittest.TestCase):
    def test_room_is_made_before_it_is_needed(self) -> None:
        moved: list[tuple[int, list[int], int]] = []

        def move(pid: int, pages: Sequence[int], node: int) -> bool:
            moved.append((pid, list(pages), node))
            return True

        damon = cast(Damon, FakeDamon([_region(4, 9, 9), _region(0, 0, 99)]))
        Ageing(damon, AGES, move=move).round()
        pages = [number * PAGE_BYTES for number in range(8)]
        self.assertEqual(moved, [(7, pages[:4], 1), (7, pages[4:], 0)])

    def test_a_full_node_ends_one_direction(self) -> None:
        calls: list[tuple[int, int]] = []

        def move(_: int, pages: Sequence[int], node: int) -> bool:
            calls.append((len(pages), node))
            return node == 1

        regions = [
            _region(0, 0, 99),
            Region(1 << 30, (1 << 30) + 2 * PAGES_PER_CALL * PAGE_BYTES, 9, 9),
        ]
        Ageing(cast(Damon, FakeDamon(regions)), AGES, move=move).round()
        self.assertEqual(calls, [(4, 1), (PAGES_PER_CALL, 0)])

    def test_calls_name_every_page_once(self) -> None:
        made = batches([(0, 700 * PAGE_BYTES), (1 << 30, PAGE_BYTES)])
        self.assertEqual([len(batch) for batch in made], [PAGES_PER_CALL, 701 - PAGES_PER_CALL])
        self.assertEqual(len({page for batch in made for page in batch}), 701)

    def test_nothing_to_move_is_no_call(self) -> None:
        self.assertEqual(batches([]), [])


if __name__ == "__main__":
    unittest.main()
