"""The course of a run: the nodes of the program's memory and of its misses, over time."""

import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tierguest.cgroup import Cgroup
from tierguest.files import read, table
from tierguest.truth import Truth

from .kdamonds import Kdamonds
from .measure import MOVES, demotions, run_seconds

MIB = 1 << 20
# A twentieth of the shortest run. One reading takes less than a thousandth of it.
EVERY_S = 0.5
# Points between two curves. A page of the bench's programs has some hundred misses in two seconds;
# in a shorter time chance would decide which pages had the most.
CURVE_EVERY = 4
NODE = Path("/sys/devices/system/node/node0")


@dataclass(frozen=True)
class Point:
    """The state at one time."""

    seconds: float
    """Seconds since the start of the work."""
    fast_mib: float
    """MiB of the program's anonymous memory on the fast node."""
    free_mib: float
    """Free MiB of the fast node. The next two fields are of the fast node, too."""
    file_mib: float
    """MiB of page cache."""
    anon_mib: float
    """MiB of anonymous memory of all processes, the ballast included."""
    user_misses: tuple[int, ...]
    """Misses by node, since the start of the work, without the kernel's copies."""
    run_s: float
    """Seconds for which the program's busiest thread has run since its start."""
    poisoned: int
    """Page table entries that the kernel's scans have changed. The next three fields count pages,
    too; all four count since the start of the work."""
    faulted: int
    promoted: int
    demoted: int


@dataclass(frozen=True)
class Hot:
    """The misses of user programs in a part of the run, in the order of their pages' heat."""

    seconds: float
    """The end of the part, since the start of the work; the first part starts with the work, and
    each other one at the end of the one before."""
    total: int
    steps: tuple[int, ...]
    """Those of the hottest pages (tierguest.truth.Curve)."""


class Course:
    """Records points inside a `with` block."""

    def __init__(self, group: Cgroup, truth: Truth, kdamonds: Kdamonds) -> None:
        self._group, self._truth, self._kdamonds = group, truth, kdamonds
        self._began = time.monotonic()
        self._before = truth.user_misses()
        self._moved_before = _moved()
        self._points: list[Point] = []
        self._hot: list[Hot] = []
        self._asked: float | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._record)

    def __enter__(self) -> "Course":
        self._points.append(self._point())
        self._truth.ask_curve()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def points(self) -> list[dict[str, object]]:
        """Returns the recorded points, in order."""
        return [asdict(point) for point in self._points]

    def hot(self) -> list[dict[str, object]]:
        """Returns which part of the misses the hottest pages had, in order."""
        return [asdict(part) for part in self._hot]

    def _record(self) -> None:
        while not self._done.wait(EVERY_S):
            self._kdamonds.sample()
            point = self._point()
            # The empty memory of a program that has ended is not a part of its course.
            if self._group.processes():
                self._take_curve()
                self._points.append(point)
                if (len(self._points) - 1) % CURVE_EVERY == 0:
                    self._truth.ask_curve()
                    self._asked = point.seconds

    def _take_curve(self) -> None:
        curve = self._truth.curve() if self._asked is not None else None
        if curve and self._asked is not None:
            self._hot.append(Hot(self._asked, curve.total, curve.steps))
            self._asked = None

    def _point(self) -> Point:
        node = node_mib()
        misses = self._truth.user_misses()
        run_s = run_seconds(self._group.processes())
        return Point(
            time.monotonic() - self._began,
            self._group.on_nodes()[0] / MIB,
            node["MemFree"],
            node["FilePages"],
            node["AnonPages"],
            tuple(now - then for now, then in zip(misses, self._before, strict=True)),
            run_s[0] if run_s else 0.0,
            *(now - then for now, then in zip(_moved(), self._moved_before, strict=True)),
        )


def _moved() -> tuple[int, int, int, int]:
    """Returns entries changed by scans, hint faults, promotions and demotions so far."""
    vmstat = table("/proc/vmstat")
    names = ("numa_pte_updates", "numa_hint_faults", MOVES["promoted"])
    poisoned, faulted, promoted = (vmstat.get(name, 0) for name in names)
    return poisoned, faulted, promoted, demotions(vmstat)


def node_mib() -> dict[str, float]:
    """Returns the fast node's meminfo, in MiB."""
    rows = (line.split() for line in read(NODE / "meminfo").splitlines())
    return {row[2].rstrip(":"): int(row[3]) / 1024 for row in rows}


def watermarks_mib(text: str, node: int = 0) -> dict[str, float]:
    """Returns the sums of the watermarks of a node's zones, in MiB; `text` is the content of
    /proc/zoneinfo."""
    found = dict.fromkeys(("min", "low", "high", "promo"), 0.0)
    for words in _zone_rows(text, node):
        if len(words) == 2 and words[0] in found:
            found[words[0]] += int(words[1]) * 4096 / MIB
    return found


def gave_up(text: str, node: int = 0) -> bool:
    """Returns true if kswapd has given up reclaiming from a node; `text` is the content of
    /proc/zoneinfo."""
    rows = _zone_rows(text, node)
    return any(words[0] == "node_unreclaimable:" and words[1] != "0" for words in rows)


def _zone_rows(text: str, node: int) -> Iterator[list[str]]:
    """Yields the words of each line of a node's zones."""
    here = False
    for line in text.splitlines():
        words = line.split()
        if words and words[0] == "Node":
            here = words[1] == f"{node},"
        elif words and here:
            yield words
