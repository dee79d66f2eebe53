"""The tests, and the groups of them that share a guest."""

import importlib
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .boots import boot
from .errors import LabError
from .kernel import SERIES
from .paths import LAB, tested_program

if TYPE_CHECKING:
    from tierguest import Test

TESTS = LAB / "tests"


# A guest keeps one to two of the host's CPUs busy; the lab is made for machines with two.
GUESTS_AT_ONCE = 2

# Time limits of tests that are worth a boot; they end after a tenth of their limits.
WORTH_A_BOOT_S = 1500.0


@dataclass(frozen=True)
class Group:
    """Tests that run in one guest, one after the other."""

    kernel: str
    boot: str
    share: str
    tests: "tuple[Test, ...]"
    part: str = ""
    """Which of the guests among which the tests of one boot are divided."""

    @property
    def name(self) -> str:
        """Returns the group's name for messages."""
        share = "/" + self.share if self.share else ""
        return f"{self.kernel} {self.boot}{share}{self.part}"

    @property
    def timeout_s(self) -> float:
        """Returns the time limit in seconds of its tests together; each test also has its own limit
        inside the guest."""
        return float(sum(test.timeout_s for test in self.tests)) + SLACK_S


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
    `smoke` only for the few tests of each part's basic function."""
    chosen = [test for test in tests() if wanted in test.name and (test.smoke or not smoke)]
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
    made = [Group(*key, tuple(members)) for key, members in found.items()]
    # No guest has so much work that the others wait for it in the end.
    limit_s = sum(group.timeout_s for group in made) / (2 * GUESTS_AT_ONCE)
    parts = [part for group in made for part in divided(group, max(limit_s, WORTH_A_BOOT_S))]
    # The longest come first: with two guests at a time the whole run is then shorter.
    return sorted(parts, key=lambda group: -group.timeout_s)


def divided(group: Group, limit_s: float) -> list[Group]:
    """The group as guests of about `limit_s` at most, alike in their time limits; in each the tests
    keep their order."""
    count = min(math.ceil(group.timeout_s / limit_s), len(group.tests))
    if group.share or count < 2:
        return [group]
    parts: list[list[Test]] = [[] for _ in range(count)]
    for test in sorted(group.tests, key=lambda test: -test.timeout_s):
        min(parts, key=lambda part: sum(other.timeout_s for other in part)).append(test)
    return [
        replace(
            group,
            tests=tuple(test for test in group.tests if test in part),
            part=f" {number} of {count}",
        )
        for number, part in enumerate(parts, 1)
    ]


def _check_needs(test: "Test") -> None:
    for program in test.needs:
        if not tested_program(program):
            raise LabError(
                f"{test.name} needs the program {program}, which is not built: "
                "`make lab-test` builds it, and "
                "TIERLAB_TESTED names the directory that has it (target/release otherwise)"
            )
