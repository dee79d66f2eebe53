"""The tests, and the groups of them that share a guest."""

import importlib
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .boots import boot
from .errors import LabError
from .kernel import SERIES
from .paths import LAB, tested_program

if TYPE_CHECKING:
    from tierguest import Test

TESTS = LAB / "tests"


@dataclass(frozen=True)
class Group:
    """Tests that run in one guest, one after the other."""

    kernel: str
    boot: str
    share: str
    tests: "tuple[Test, ...]"

    @property
    def name(self) -> str:
        """Returns the group's name for messages."""
        return f"{self.kernel} {self.boot}{'/' + self.share if self.share else ''}"

    @property
    def timeout_s(self) -> float:
        """Returns the time limit in seconds of its tests together; each test also has its own limit
        inside the guest."""
        return float(sum(test.timeout_s for test in self.tests)) + SLACK_S


# Seconds of time limits in one guest. With less, more time goes to booting guests, half a minute
# each on a slow host; with more, the last guest runs alone for longer.
LONGEST_S = 5000.0

# Seconds for the start of Python in the guest, and for creating and removing the tests' objects.
SLACK_S = 60.0


def tests() -> "list[Test]":
    """Returns every test that lab/tests/ declares."""
    for directory in (LAB / "guest", TESTS):
        if str(directory) not in sys.path:
            sys.path.insert(0, str(directory))
    for file in sorted(TESTS.glob("*.py")):
        importlib.import_module(file.stem)
    from tierguest import declared

    return declared()


def groups(wanted: str, kernels: Sequence[str], smoke: bool = False) -> list[Group]:
    """Returns the guests to boot for the tests whose name contains `wanted`, on these kernels; with
    `smoke` only for the few tests of each part's basic function. Tests that measure take minutes of
    a timed guest, and are left out if all are wanted."""
    chosen = [
        test
        for test in tests()
        if wanted in test.name and (test.smoke or not smoke) and (wanted or not test.measures)
    ]
    if not chosen:
        raise LabError(
            f"--filter {wanted}: no test has that in its name; `python3 -m tierlab list` names them"
        )
    for test in chosen:
        boot(test.boot, test.name)
        _check_needs(test)
        unknown = set(test.absences) - {series.name for series in SERIES}
        if unknown:
            raise LabError(
                f"{test.name}: absences names {sorted(unknown)}, which are no kernels of the lab"
            )
    found: dict[tuple[str, str, str], list[Test]] = {}
    for test in chosen:
        for kernel in kernels:
            found.setdefault((kernel, test.boot, test.share), []).append(test)
    # The longest come first: with two guests at a time the whole run is then shorter.
    made = [Group(*key, part) for key, members in found.items() for part in divide(tuple(members))]
    return sorted(made, key=lambda group: -group.timeout_s)


def divide(members: "tuple[Test, ...]") -> "list[tuple[Test, ...]]":
    """Divides tests among as few guests as keep each near LONGEST_S: the longest first, each to the
    guest that has the least so far. A guest runs its tests in the order in which they came."""
    number = math.ceil(sum(test.timeout_s for test in members) / LONGEST_S)
    parts: list[list[int]] = [[] for _ in range(min(max(number, 1), len(members)))]
    for index in sorted(range(len(members)), key=lambda index: -members[index].timeout_s):
        least = min(parts, key=lambda part: sum(members[at].timeout_s for at in part))
        least.append(index)
    return [tuple(members[index] for index in sorted(part)) for part in parts]


def _check_needs(test: "Test") -> None:
    for program in test.needs:
        if not tested_program(program):
            raise LabError(
                f"{test.name} needs the program {program}, which is not built: "
                "`make lab-test` builds it, and "
                "TIERLAB_TESTED names the directory that has it (target/release otherwise)"
            )
