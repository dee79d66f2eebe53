"""The kernels of all tests."""

from dataclasses import dataclass

from .apt import SUITE
from .errors import LabError


@dataclass(frozen=True)
class Series:
    """A series of stock Debian cloud kernels: its archive, and the prefix of its versions."""

    name: str
    suite: str
    version_prefix: str


# Debian's stable kernel, which most hosts will run for years, and the newest that Debian packages
# for it. Tierwise must detect their differences (DAMON's actions, reclaim by node) at run time.
SERIES = (
    Series("6.12", SUITE, "6.12."),
    Series("7", f"{SUITE}-backports", "7."),
)


def series(name: str) -> Series:
    """Returns the series of that name."""
    for known in SERIES:
        if known.name == name:
            return known
    raise LabError(
        f"--kernel {name}: no such kernel; one of: {', '.join(known.name for known in SERIES)}"
    )
