"""Which tests share a guest, and what is said of tests of which the guest does not tell."""

import contextlib
import io
import sys
import unittest

from tierlab.collect import Group, groups
from tierlab.errors import LabError
from tierlab.guest import Outcome
from tierlab.paths import LAB
from tierlab.suite import Report, Result, untold

sys.path.insert(0, str(LAB / "guest"))
from tierguest.declare import Lack, Test  # noqa: E402


def _nothing(guest: object) -> None:
    """Stands for a test."""


class Grouping(unittest.TestCase):
    def test_every_test_runs_once_on_each_kernel(self) -> None:
        made = groups("", ["6.12", "7"])
        names = [(group.kernel, test.name) for group in made for test in group.tests]
        self.assertEqual(len(names), len(set(names)))
        newer, older = ({name for kernel, name in names if kernel == series} for series in ("7", "6.12"))
        self.assertEqual(newer, older)

    def test_tests_of_one_boot_share_a_guest(self) -> None:
        made = groups("", ["7"])
        self.assertEqual(len(made), len({(group.boot, group.share) for group in made}))

    def test_an_empty_selection_is_a_mistake(self) -> None:
        with self.assertRaisesRegex(LabError, "no test has that in its name"):
            groups("no-such-test", ["7"])

    def test_a_lack_is_asserted_where_it_is(self) -> None:
        def absent(guest: object) -> None:
            """Stands for the assertion."""

        test = Test("file::name", _nothing, "hmat", "", 10, (), {"6.12": Lack("has no such thing", absent)})
        self.assertIs(test.on("6.12"), absent)
        self.assertIs(test.on("7"), _nothing)


class Reporting(unittest.TestCase):
    def _group(self) -> Group:
        tests = (Test(name, _nothing, "hmat", "", 10, ()) for name in ("a::one", "a::two"))
        return Group("7", "hmat", "", tuple(tests))

    def test_a_hung_guest_fails_the_test_that_ran_and_those_after(self) -> None:
        outcome = Outcome(None, "the guest hung", "console", 1.0, 2.0, "r")
        results = [untold(self._group(), name, ["a::one"], outcome) for name in ("a::one", "a::two")]
        self.assertEqual([result.ok for result in results], [False, False])
        reasons = ["while it ran: the guest hung", "it did not run: the guest hung"]
        self.assertEqual([result.reason for result in results], reasons)

    def test_a_failure_is_printed_with_reason_and_console(self) -> None:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            Report(as_json=False).add(Result("7", "a::one", False, 1.5, "too slow", console="last line"))
        self.assertRegex(said.getvalue(), r"(?s)7 +FAIL +1\.5 s  a::one.*too slow.*\| last line")


if __name__ == "__main__":
    unittest.main()
