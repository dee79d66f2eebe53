"""Declarations of tests and their requirements. The host reads them to boot guests, and the guest
reads them to run the tests."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .guest import Guest

TestFunction = Callable[["Guest"], None]

# Seconds of the guest's clock that a test may take unless it sets another limit: it suffices
# several times for a few of DAMON's aggregations and moves of some ten thousand pages.
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
    """Tests of one boot and share run one after the other in the same guests."""
    timeout_s: int
    needs: tuple[str, ...]
    """Programs of target/release/ that must have been built."""
    absences: dict[str, Absence] = field(default_factory=dict)
    """The absences, by kernel series."""
    smoke: bool = False
    """True for the few tests that check the basic function of each part."""
    measures: bool = False
    """True for those that measure a cost: they run if a filter names them."""

    def on(self, kernel: str) -> TestFunction:
        """Returns the test for this kernel series, or the assertion that the kernel lacks the
        feature."""
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
    measures: bool = False,
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
                measures,
            )
        )
        return function

    return declare


def declared() -> list[Test]:
    """Returns every test that the imported modules declared, in order of declaration."""
    return list(_declared)
