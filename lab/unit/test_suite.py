"""Tests of the groups that share a guest, and of the results of tests that the guest does not
report."""

import contextlib
import io
import json
import sys
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

from tierlab import suite
from tierlab.collect import LONGEST_S, Group, divide, groups
from tierlab.errors import LabError
from tierlab.guest import Outcome
from tierlab.paths import LAB, Paths
from tierlab.suite import Report, Result, untold

sys.path.insert(0, str(LAB / "guest"))
from tierguest.declare import Absence, Test  # noqa: E402


def _nothing(guest: object) -> None:
    """Replaces a test."""


class Grouping(unittest.TestCase):
    def test_every_test_runs_once_on_each_kernel(self) -> None:
        made = groups("", ["6.12", "7"])
        names = [(group.kernel, test.name) for group in made for test in group.tests]
        self.assertEqual(len(names), len(set(names)))
        newer, older = (
            {name for kernel, name in names if kernel == series} for series in ("7", "6.12")
        )
        self.assertEqual(newer, older)

    def test_tests_of_one_boot_share_a_guest(self) -> None:
        made = groups("", ["7"])
        few = [group for group in made if group.boot != "hmat" or group.share]
        self.assertEqual(len(few), len({(group.boot, group.share) for group in few}))

    def test_many_tests_are_divided_between_guests(self) -> None:
        def a_test(name: str, timeout_s: int) -> Test:
            return Test(name, _nothing, "hmat", "", timeout_s, ())

        limit = int(LONGEST_S)
        long, half, small = a_test("a", limit), a_test("b", limit // 2), a_test("c", limit // 4)
        other = a_test("d", limit // 4)
        parts = divide((small, long, half, other))
        self.assertEqual(parts, [(long,), (small, half, other)])
        self.assertEqual(divide((small,)), [(small,)])
        self.assertEqual(divide((a_test("e", 3 * limit),)), [(a_test("e", 3 * limit),)])

    def test_measurements_run_if_they_are_named(self) -> None:
        def measured(wanted: str) -> bool:
            return any(test.measures for group in groups(wanted, ["7"]) for test in group.tests)

        self.assertFalse(measured(""))
        self.assertTrue(measured("monitoring_cost"))

    def test_an_empty_selection_is_a_mistake(self) -> None:
        with self.assertRaisesRegex(LabError, "no test has that in its name"):
            groups("no-such-test", ["7"])

    def test_a_lack_is_asserted_where_it_is(self) -> None:
        def absent(guest: object) -> None:
            """Replaces the assertion."""

        test = Test(
            "file::name",
            _nothing,
            "hmat",
            "",
            10,
            (),
            {"6.12": Absence("has no such thing", absent)},
        )
        self.assertIs(test.on("6.12"), absent)
        self.assertIs(test.on("7"), _nothing)


class Reporting(unittest.TestCase):
    def _group(self) -> Group:
        tests = (Test(name, _nothing, "hmat", "", 10, ()) for name in ("a::one", "a::two"))
        return Group("7", "hmat", "", tuple(tests))

    def test_a_hung_guest_fails_remaining_tests(self) -> None:
        outcome = Outcome(None, "the guest hung", "console", 1.0, 2.0, "r")
        results = [
            untold(self._group(), name, ["a::one"], outcome) for name in ("a::one", "a::two")
        ]
        self.assertEqual([result.ok for result in results], [False, False])
        reasons = ["while it ran: the guest hung", "it did not run: the guest hung"]
        self.assertEqual([result.reason for result in results], reasons)

    def test_a_failure_prints_reason_and_console(self) -> None:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            Report(as_json=False).add(
                Result("7", "a::one", False, 1.5, "too slow", console="last line")
            )
        self.assertRegex(printed.getvalue(), r"(?s)7 +FAIL +1\.5 s  a::one.*too slow.*\| last line")

    def test_a_repetition_replaces_the_first_result(self) -> None:
        printed, report = io.StringIO(), Report(as_json=False)
        with contextlib.redirect_stdout(printed):
            report.add(Result("7", "a::one", False, 1.5, "too slow"))
            report.add(Result("6.12", "a::one", False, 1.5, "too slow"))
            report.add(Result("7", "a::one", True, 1.0, again=True))
        self.assertEqual([(r.kernel, r.ok) for r in report.results], [("6.12", False), ("7", True)])
        self.assertRegex(printed.getvalue(), r"PASS +1\.0 s  a::one  \(alone in a second guest\)")


class Booting(unittest.TestCase):
    """Guests that end before their first test, with replacements for guests."""

    def _ran(self, outcomes: list[tuple[Outcome, list[str]]]) -> tuple[list[Result], str]:
        """Returns the results of a group whose guests end so, each after these events, and what was
        printed."""
        left = iter(outcomes)

        def stand_in(
            guest: object, job: object, timeout_s: float, on_event: Callable[[str], None], **_: Any
        ) -> Outcome:
            outcome, events = next(left)
            for event in events:
                on_event(event)
            return outcome

        group = Group("7", "hmat", "", (Test("a::one", _nothing, "hmat", "", 10, ()),))
        printed, report = io.StringIO(), Report(as_json=False)
        with (
            mock.patch.object(suite.Guest, "run", stand_in),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(printed),
        ):
            suite.run(Paths.default(), [group], report)
        return report.results, printed.getvalue()

    PANIC = Outcome(None, "the guest ended", "Kernel panic", None, 2.0, "")
    DONE = Outcome(0, "", "", 1.0, 2.0, "r")
    STARTED = json.dumps({"start": "a::one"})
    PASSED = json.dumps({"test": "a::one", "ok": True, "seconds": 1.0})

    def test_a_failed_boot_is_repeated_once(self) -> None:
        results, printed = self._ran([(self.PANIC, []), (self.DONE, [self.STARTED, self.PASSED])])
        self.assertEqual([(r.ok, r.again) for r in results], [(True, False)])
        self.assertRegex(printed, r"(?s)it boots once more.*Kernel panic")
        # The last two are of the repetition of a failed test.
        results, _ = self._ran([(self.PANIC, [])] * 4)
        self.assertEqual([r.ok for r in results], [False])

    def test_a_death_in_a_test_counts(self) -> None:
        died = (self.PANIC, [self.STARTED])
        results, printed = self._ran([died, died])
        self.assertEqual([r.reason for r in results], ["while it ran: the guest ended"])
        self.assertNotIn("boots once more", printed)


class Repeating(unittest.TestCase):
    """Repetitions of failed tests, with replacements for guests."""

    def _ran(self, failures: dict[str, int]) -> tuple[list[tuple[str, bool]], bool]:
        """Returns the names of the tests that ran again, and true if all passed; `failures` has the
        number of failures of each test."""
        ran: list[tuple[str, bool]] = []

        def stand_in(
            paths: object, group: Group, report: Report, stop: object, again: bool = False
        ) -> None:
            for test in group.tests:
                ran.append((test.name, again))
                left = failures[test.name] = failures.get(test.name, 0) - 1
                report.add(Result(group.kernel, test.name, left < 0, 1.0, again=again))

        tests = tuple(Test(f"a::{i}", _nothing, "hmat", "", 10, ()) for i in range(8))
        with (
            mock.patch.object(suite, "_run_group", stand_in),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            passed = suite.run(
                Paths.default(), [Group("7", "hmat", "", tests)], Report(as_json=False)
            )
        return ran[8:], passed

    def test_a_failed_test_runs_once_more_alone(self) -> None:
        self.assertEqual(self._ran({"a::3": 1}), ([("a::3", True)], True))
        self.assertEqual(self._ran({"a::3": 2}), ([("a::3", True)], False))

    def test_many_failures_are_no_chance(self) -> None:
        self.assertEqual(self._ran({f"a::{i}": 1 for i in range(7)}), ([], False))


if __name__ == "__main__":
    unittest.main()
