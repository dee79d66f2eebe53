"""`stairs`, the program whose hot memory is known, and the placement of that memory."""

import json
from dataclasses import dataclass
from pathlib import Path

from .cgroup import Cgroup
from .placement import Placement, Range, where
from .program import Program, wait_for_file

# First touch of some hundred MiB under emulation takes a second or two.
START_S = 60


@dataclass(frozen=True)
class Truth:
    """The report of stairs on its current phase; ranges are (address, bytes)."""

    phase: int
    region: Range
    hot: Range

    def cold(self) -> list[Range]:
        """Returns the ranges of the region outside the hot part."""
        (start, size), (hot_start, hot_size) = self.region, self.hot
        before = (start, hot_start - start)
        after = (hot_start + hot_size, start + size - hot_start - hot_size)
        return [piece for piece in (before, after) if piece[1] > 0]


class Stairs(Program):
    """A running `stairs`; options are those of its command line (lab/guest/programs/stairs.c).

    `user` runs it as that user id instead of root's.
    """

    def __init__(
        self,
        directory: Path,
        name: str,
        cgroup: Cgroup | None = None,
        user: int | None = None,
        **options: object,
    ) -> None:
        # The program writes its report beside the file and renames it, so another user needs a
        # writable directory.
        reports = directory if user is None else directory / f"{name}.reports"
        self.report = reports / f"{name}.report"
        self.report.unlink(missing_ok=True)
        become: list[str] = []
        if user is not None:
            directory.chmod(0o711)
            reports.mkdir(exist_ok=True)
            reports.chmod(0o777)
            become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        words = [
            *become,
            "stairs",
            *(f"{key}={value}" for key, value in options.items()),
            f"report={self.report}",
        ]
        super().__init__(words, directory / f"{name}.out", cgroup)
        try:
            wait_for_file(self.report, self, START_S)
        except BaseException:
            # No other object has a reference to the program yet.
            self.stop()
            raise

    def __enter__(self) -> "Stairs":
        return self

    def truth(self) -> Truth:
        """Returns the report on the current phase."""
        printed = json.loads(self.report.read_text())
        return Truth(
            printed["phase"],
            (printed["start"], printed["bytes"]),
            (printed["hot_start"], printed["hot_bytes"]),
        )

    def hot(self) -> Placement:
        """Returns the nodes of the hot part's pages."""
        return where(self.pid, [self.truth().hot])[0]

    def cold(self) -> Placement:
        """Returns the nodes of the region's other pages."""
        # A region that is entirely hot has no other pages.
        ranges = self.truth().cold()
        pieces = where(self.pid, ranges) if ranges else [Placement((0,) * len(self.hot().nodes), 0)]
        return sum(pieces[1:], pieces[0])

    def region(self) -> Placement:
        """Returns the nodes of all pages of the region."""
        return where(self.pid, [self.truth().region])[0]

    def describe(self) -> str:
        """Describes hot and cold pages by node, for a failure's message."""
        return f"stairs: hot pages by node {self.hot().nodes}, cold {self.cold().nodes}"

    def operations(self) -> list[int]:
        """Returns the accesses of each phase that has ended."""
        return [line["operations"] for line in self.json_lines()]
