"""CPU time of what the daemon's monitoring consists of, each part by itself: for the simulator's
costs (docs/fidelity.md, "The daemon's policies").

The guests are timed: a nanosecond is an instruction or a part of a miss. A program takes the caches
from the threads that are measured, as the bench's programs do.
"""

import re
import time
from pathlib import Path

from tierguest import Guest, test
from tierguest.cgroup import Cgroup
from tierguest.configuration import configuration
from tierguest.damon import Damon
from tierguest.files import read, write
from tierguest.program import Program

# Boot's kernel workers share the one CPU at first.
SETTLED_S = 8
# Twice the lab's cache, of which all is used.
PROGRAM_MIB = 64
MEASURED_S = 1.0
# The program works for some 1 ms and sleeps for 5, which takes the host less time. Its 10,000
# accesses to random lines still replace a sixth of the cache between two wake-ups of DAMON.
PAUSE_US = 5000
# As in the bench's daemon (tierguest/configuration.py), and with twice as many checks.
SAMPLE_US, AGGREGATE_US = 10_000, 200_000
FEW, SOME, MANY = 10, 200, 1000
TRACING = Path("/sys/kernel/tracing")
EVENT = "events/damon/damon_aggregated/enable"
# For the reports of a second: five aggregations of a thousand regions, each in 64 bytes.
BUFFER_KIB = 4096


class Reports:
    """DAMON's tracepoint in an instance of its own."""

    def __init__(self) -> None:
        self._instance = TRACING / "instances" / "costs"

    def __enter__(self) -> "Reports":
        self._instance.mkdir()
        write(self._instance / "buffer_size_kb", BUFFER_KIB)
        return self

    def __exit__(self, *_: object) -> None:
        self._instance.rmdir()

    def switch(self, on: bool) -> None:
        """Makes kdamonds report their regions, or not."""
        write(self._instance / EVENT, int(on))

    def regions(self, seconds: float) -> float:
        """Returns the mean number of regions of the intervals that end in so many seconds."""
        trace = self._instance / "trace"
        # Truncating it empties the buffers.
        trace.write_text("")
        self.switch(True)
        time.sleep(seconds)
        self.switch(False)
        found = re.findall(r"nr_regions=(\d+)", read(trace))
        assert found, "no aggregation interval ended"
        # Each region is reported with the number of all.
        return len(found) / sum(1 / int(number) for number in found)


def _program(guest: Guest, mib: int, group: Cgroup | None = None) -> Program:
    return guest.stairs(group, mib=mib, hot_mib=mib, pattern="fixed", node=0, pause_us=PAUSE_US)


def _run_s(pid: int, thread: int | None = None) -> float:
    return int(read(f"/proc/{pid}/task/{thread or pid}/schedstat").split()[0]) / 1e9


def _used_s(thread: int, seconds: float) -> tuple[float, float]:
    """Returns the CPU seconds of a thread and those that passed."""
    before, start = _run_s(thread), time.monotonic()
    time.sleep(seconds)
    return _run_s(thread) - before, time.monotonic() - start


def _kdamond(
    program: Program, reports: Reports, bounds: int, sample_us: int, reporting: bool
) -> tuple[float, float]:
    """Returns the CPU seconds of a kdamond in an aggregation interval and its regions."""
    attrs = {"sample_us": sample_us, "aggregate_us": AGGREGATE_US}
    with Damon(program.pid, action=None, bounds=(bounds, bounds), **attrs) as damon:
        thread = int(read(damon.kdamond / "pid"))
        time.sleep(3 * AGGREGATE_US / 1e6)
        reports.switch(reporting)
        used, passed = _used_s(thread, MEASURED_S)
        reports.switch(False)
        return used / passed * AGGREGATE_US / 1e6, reports.regions(2.5 * AGGREGATE_US / 1e6)


@test(boot="timed", timeout_s=1200, measures=True)
def kdamond_cost_by_regions(guest: Guest) -> None:
    """CPU time of a kdamond's wake-up, of a check and of the report of a region to the tracepoint,
    by the number of its regions and the length of its sampling interval."""
    time.sleep(SETTLED_S)
    program = _program(guest, PROGRAM_MIB)
    with Reports() as reports:
        found = {
            (bounds, sample_us, reporting): _kdamond(program, reports, bounds, sample_us, reporting)
            for bounds, sample_us, reporting in (
                (FEW, SAMPLE_US, False),
                (SOME, SAMPLE_US, False),
                (MANY, SAMPLE_US, False),
                (FEW, SAMPLE_US // 2, False),
                (SOME, SAMPLE_US // 2, False),
                (MANY, SAMPLE_US // 2, False),
                (FEW, SAMPLE_US, True),
                (MANY, SAMPLE_US, True),
            )
        }
    for (bounds, sample_us, reporting), (used, regions) in found.items():
        name = f"{bounds}_{sample_us}_{'reported' if reporting else 'unreported'}"
        guest.figure(f"regions_{name}", regions)
        guest.figure(f"interval_us_{name}", used * 1e6)
    for sample_us, name in ((SAMPLE_US, ""), (SAMPLE_US // 2, "_sooner")):
        # A region's part of its aggregation is in its checks: both come as often in these runs.
        few, some, many = (found[bounds, sample_us, False] for bounds in (FEW, SOME, MANY))
        wakes = AGGREGATE_US / sample_us
        region = (many[0] - few[0]) / (many[1] - few[1])
        guest.figure(f"check_ns{name}", region / wakes * 1e9)
        guest.figure(f"wake_ns{name}", (few[0] - few[1] * region) / wakes * 1e9)
        # How far the number between them is from the line through the others.
        line = few[0] + (some[1] - few[1]) * region
        guest.figure(f"some_off_percent{name}", 100 * (some[0] / line - 1))
    few, many = (
        found[bounds, SAMPLE_US, True][0] - found[bounds, SAMPLE_US, False][0]
        for bounds in (FEW, MANY)
    )
    regions = found[MANY, SAMPLE_US, False][1] - found[FEW, SAMPLE_US, False][1]
    guest.figure("reported_region_ns", (many - few) / regions * 1e9)


DAEMON_SETTLED_S = 2
DAEMON_MEASURED_S = 3.0


def _daemon(guest: Guest, name: str, policy: str, programs: int, mib: int) -> None:
    """Figures of a daemon over so many programs: milliseconds per second of each thread, the
    regions of all kdamonds in a report, and the milliseconds that its start took beyond that."""
    groups = [guest.cgroup(f"{name}{i}") for i in range(programs)]
    for group in groups:
        _program(guest, mib, group)
    tenants = [(group.name, f"cgroup = '{group.name}'") for group in groups]
    begin = time.monotonic()
    daemon = guest.tierwised(configuration(guest, policy, tenants))
    guest.wait_until(lambda: "monitors accesses with" in daemon.printed(), 60, daemon.printed)
    time.sleep(DAEMON_SETTLED_S)
    before, start = _threads(daemon), time.monotonic()
    time.sleep(DAEMON_MEASURED_S)
    after, passed = _threads(daemon), time.monotonic() - start
    assert daemon.running(), daemon.printed()
    with Reports() as reports:
        guest.figure(f"{name}_regions", reports.regions(1.0))
    so_far = sum(seconds for _, seconds in before.values())
    rate = (sum(seconds for _, seconds in after.values()) - so_far) / passed
    guest.figure(f"{name}_start_ms", 1e3 * (so_far - rate * (start - begin)))
    for thread, (comm, seconds) in after.items():
        used = seconds - before.get(thread, (comm, 0.0))[1]
        # The threads that answer requests sleep.
        if used > 0:
            guest.figure(f"{name}_{comm}_ms_per_s", 1e3 * used / passed)


def _threads(program: Program) -> dict[int, tuple[str, float]]:
    tasks = Path(f"/proc/{program.pid}/task")
    return {
        int(task.name): (read(task / "comm"), _run_s(program.pid, int(task.name)))
        for task in tasks.iterdir()
    }


@test(boot="timed", needs=("tierwised",), timeout_s=1200, measures=True)
def daemon_cost_by_part(guest: Guest) -> None:
    """CPU time of the daemon's threads by blocks and by programs; its policies move nothing."""
    time.sleep(SETTLED_S)
    for name, policy, programs, mib in (
        ("small", "multi-clock", 1, 16),
        ("large", "multi-clock", 1, 160),
        ("several", "multi-clock", 5, 16),
        ("between", "multi-clock", 3, 48),
        ("memtis", "memtis", 1, 160),
    ):
        with guest.part() as part:
            _daemon(part, name, policy, programs, mib)
