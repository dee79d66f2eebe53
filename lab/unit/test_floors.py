"""Tests of the floors bench's tenants, figures and table."""

import unittest

from bench.floors_table import HEADER, REFERENCE, FloorsRun, mean, relative, rows
from bench.neighbours import GUARANTEED_MIB, RUN_S, SETTLING_S, SIZES, floor_mib, neighbours
from bench.table import aligned

NAMES = [one.name for one in neighbours(2)]


def run(policy: str, per_second: float, fast_mib: float) -> FloorsRun:
    """A run in which the first tenant holds all of its floor, and the second so much memory."""
    course = [
        {
            "seconds": float(second),
            "fast_mib": dict(zip(NAMES, (floor_mib(2) + 5, fast_mib), strict=True)),
            "free_mib": 5.0,
            "user_misses": [3 * second, second],
            # Nothing is done before the seconds that count.
            "work": dict.fromkeys(NAMES, per_second * max(second - SETTLING_S, 0)),
        }
        for second in range(RUN_S + 1)
    ]
    return FloorsRun(
        policy=policy,
        course=course,
        seconds=float(RUN_S),
        misses=(3, 1),
        user_misses=(3, 1),
        migrated_pages=7,
        promoted_pages=0,
        demoted_pages=0,
        kernel_cpu_s=0.25,
        daemon_cpu_s=0.5,
        resident_mib=dict.fromkeys(NAMES, 90.0),
        fast_mib_at_start=dict.fromkeys(NAMES, 9.0),
        free_mib_at_start=70.0,
    )


SET = {
    REFERENCE: run(REFERENCE, 20.0, 0.0),
    "tierwise": run("tierwise", 19.0, floor_mib(2) * 0.9),
}


class Tenants(unittest.TestCase):
    def test_floors_add_up_for_each_number(self) -> None:
        for number in SIZES:
            self.assertEqual(len({one.name for one in neighbours(number)}), number)
            self.assertAlmostEqual(number * floor_mib(number), GUARANTEED_MIB)


class Figures(unittest.TestCase):
    def test_work_is_relative_to_the_reference(self) -> None:
        self.assertEqual(SET["tierwise"].work(NAMES[0]), 19.0 * (RUN_S - SETTLING_S))
        self.assertEqual(relative(SET, "tierwise"), [0.95, 0.95])
        self.assertAlmostEqual(mean([0.5, 2.0]), 1.0)

    def test_only_missing_memory_lowers_a_held_floor(self) -> None:
        held = SET["tierwise"].floors_held()
        self.assertEqual((min(held), max(held)), (0.9, 1.0))
        self.assertEqual(len(held), 2 * (RUN_S - SETTLING_S + 1))

    def test_tenant_smaller_than_its_floor_holds_it(self) -> None:
        small = run("tierwise", 1.0, 3.0)
        object.__setattr__(small, "resident_mib", {NAMES[0]: 90.0, NAMES[1]: 3.0})
        self.assertEqual(min(small.floors_held()), 1.0)

    def test_table_has_the_least_work_first(self) -> None:
        found = rows([SET, SET])
        self.assertEqual([row[1] for row in found], ["tierwise", REFERENCE])
        self.assertEqual(found[0][2:6], ("0.950", "0.95", "90%", "95.0%"))
        self.assertTrue(aligned(HEADER, found))


if __name__ == "__main__":
    unittest.main()
