"""Declarations of tests and their requirements. Read by the host, which boots guests for it, and
by the guest, which runs it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .guest import Guest

TestFunction = Callable[["Guest"], None]

# Seconds of the guest's clock that a test may take unless it sets another limit: a few of DAMON's
# aggregations and moves of some ten thousand pages, several times over.
DEFAULT_TIMEOUT_S = 120


@dataclass(frozen=True)
class Absence:
    """The reason why a kernel cannot run a test at all, and an assertion of that."""

    reason: str
    asserted_by: TestFunction


@dataclass(frozen=True)
class Test:
    """A declared test."""

    name: str
    function: TestFunction
    boot: str
    """The kind of guest, by its name in tierlab/boots.py."""
    share: str
    """Tests of one boot and share run in one guest, one after the other."""
    timeout_s: int
    needs: tuple[str, ...]
    """Programs of target/release/ that must have been built."""
    absences: dict[str, Absence] = field(default_factory=dict)
    """By kernel series."""
    smoke: bool = False
    """True for the few tests that show that each part works at all."""

    def on(self, kernel: str) -> TestFunction:
        """The test for this kernel series, or the assertion of what that kernel lacks."""
        absence = self.absences.get(kernel)
        return absence.asserted_by if absence else self.function


_declared: list[Test] = []


def test(
    boot: str,
    share: str = "",
    timeout_s: int = DEFAULT_TIMEOUT_S,
    needs: tuple[str, ...] = (),
    absences: dict[str, Absence] | None = None,
    smoke: bool = False,
) -> Callable[[TestFunction], TestFunction]:
    """Declares a function as a test; `list` shows the first line of its documentation."""

    def declare(function: TestFunction) -> TestFunction:
        file = function.__module__
        _declared.append(
            Test(
                f"{file}::{function.__name__}",
                function,
                boot,
                share,
                timeout_s,
                needs,
                absences or {},
                smoke,
            )
        )
        return function

    return declare


def declared() -> list[Test]:
    """Every test declared by the modules that were imported, in that order."""
    return list(_declared)
