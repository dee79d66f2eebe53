"""The helper of every test: it creates objects, and removes them after the test."""

import contextlib
import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from . import settings
from .ballast import surplus_mib
from .cgroup import Cgroup
from .daemon import Tierwised
from .damon import AGGREGATE_US, SAMPLE_US, Damon
from .files import read, table, write
from .program import Program
from .stairs import Stairs
from .truth import Truth
from .wait import POLL_S, wait_until

DROP_CACHES = Path("/proc/sys/vm/drop_caches")


class Guest:
    """One test's view of the guest. Everything that is created through it ends with the test."""

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel
        """The kernel series: 6.12 or 7."""
        self.figures: dict[str, float | str] = {}
        """The test's measurements, printed beside its result."""
        self._stack = contextlib.ExitStack()
        self.directory = Path()
        """The test's own directory, below /tmp."""
        self._programs = 0

    def __enter__(self) -> "Guest":
        self.directory = Path(
            self._stack.enter_context(tempfile.TemporaryDirectory(prefix="test-"))
        )
        self._stack.callback(settings.restore, settings.snapshot())
        # The kernel's own tiering is off unless a test switches it on; Debian's default is 1.
        self.numa_balancing(0)
        self.demotion(False)
        write(DROP_CACHES, 3)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @contextlib.contextmanager
    def part(self) -> Iterator["Guest"]:
        """A part of a test: objects created through its guest end with the part. Its figures belong
        to the test."""
        with Guest(self.kernel) as part:
            part.figures = self.figures
            yield part

    def _name(self, kind: str) -> str:
        self._programs += 1
        return f"{kind}-{self._programs}"

    def cgroup(self, name: str) -> Cgroup:
        """Creates a control group."""
        return self._stack.enter_context(Cgroup(name))

    def stairs(self, cgroup: Cgroup | None = None, **options: object) -> Stairs:
        """Starts a `stairs`, and waits until it has touched its region and started its first
        phase."""
        return self._stack.enter_context(
            Stairs(self.directory, self._name("stairs"), cgroup, **options)
        )

    def ballast(self, left_mib: int, node: int = 0) -> Stairs:
        """Locks the free memory of a node except this much."""
        size = surplus_mib(left_mib, node)
        return self.stairs(
            mib=size, hot_mib=1, node=node, lock=1, pattern="fixed", pause_us=1_000_000
        )

    def start(self, *words: str, cgroup: Cgroup | None = None) -> Program:
        """Starts any program."""
        return self._stack.enter_context(
            Program(words, self.directory / f"{self._name('program')}.out", cgroup)
        )

    def run(self, *words: str, within_s: float = 60) -> str:
        """Runs a program to its end and returns its output; AssertionError if it fails."""
        try:
            done = subprocess.run(
                words, capture_output=True, text=True, timeout=within_s, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"{' '.join(words)} still ran after {within_s:.0f} s") from error
        if done.returncode != 0:
            raise AssertionError(
                f"{' '.join(words)}: status {done.returncode}: {done.stderr}{done.stdout}"
            )
        return done.stdout

    def json_lines(self, *words: str, within_s: float = 60) -> list[dict[str, Any]]:
        """Runs a program to its end and returns the JSON objects that it printed."""
        return [json.loads(line) for line in self.run(*words, within_s=within_s).splitlines()]

    def tierwised(self, config: str, *words: str, within: Sequence[str] = ()) -> Tierwised:
        """Starts the daemon under test; `within` is a command that executes the words after it."""
        return self._stack.enter_context(
            Tierwised(self.directory, self._name("tierwised"), config, *words, within=within)
        )

    def damon(
        self,
        pid: int,
        sample_us: int = SAMPLE_US,
        aggregate_us: int = AGGREGATE_US,
        action: str = "stat",
        min_accesses: int = 0,
        min_age: int = 0,
        target_node: int | None = None,
    ) -> Damon:
        """Starts DAMON's monitoring of a process; see damon.Damon."""
        return self._stack.enter_context(
            Damon(pid, sample_us, aggregate_us, action, min_accesses, min_age, target_node)
        )

    def truth(self) -> Truth:
        """Returns the counters of true misses."""
        return Truth()

    def wait_until(
        self,
        condition: Callable[[], bool],
        within_s: float,
        saying: Callable[[], object] | str,
        every_s: float = POLL_S,
    ) -> float:
        """See wait.wait_until."""
        return wait_until(condition, within_s, saying, every_s)

    def vmstat(self) -> dict[str, int]:
        """Returns /proc/vmstat."""
        return table("/proc/vmstat")

    def numa_balancing(self, mode: int) -> None:
        """Sets NUMA balancing: 0 off, 1 between CPUs, 2 memory tiering."""
        write(settings.NUMA_BALANCING, mode)

    def demotion(self, on: bool) -> None:
        """Switches demotion by reclaim on or off."""
        if settings.DEMOTION.exists():
            write(settings.DEMOTION, "true" if on else "false")

    def memory_tiers(self) -> list[str]:
        """Returns the node lists of the kernel's memory tiers, fastest first."""
        directory = Path("/sys/devices/virtual/memory_tiering")
        tiers = sorted(
            directory.glob("memory_tier*"),
            key=lambda tier: int(tier.name.removeprefix("memory_tier")),
        )
        return [nodes for nodes in (read(tier / "nodelist") for tier in tiers) if nodes]

    def uptime_s(self) -> float:
        """Returns the seconds since the guest's start, by its own clock."""
        return float(read("/proc/uptime").split()[0])

    def figure(self, name: str, number: float | str) -> None:
        """Records a measurement; units stand last in its name."""
        self.figures[name] = round(number, 4) if isinstance(number, float) else number
