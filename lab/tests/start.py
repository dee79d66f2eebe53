"""Tests of the daemon's start: no decision before evidence."""

import os
import subprocess
import time

from tierguest import Guest, test
from tierguest.configuration import configuration
from tierguest.files import read, write
from tierguest.settings import PER_CPU_LISTS
from tierguest.stairs import Stairs

ALL_MIB = 128
HOT_MIB = 32
# Less than half of the program is fast, the rest slow. The kernel keeps 42 MiB of the fast node
# (its low watermark with khugepaged), so that the program spills.
LEFT_MIB = 90
# A minute: DAMON's regions, the histogram's ageing (4 s) and several shares are within it.
WATCHED_S = 60
EVERY_S = 0.5
# An exchange moves a block of 256 KiB out before another comes in, and a portion of 2 MiB is the
# most that exchanges cost whose second half fails (world/exchange.rs).
IN_FLIGHT_MIB = 2
# An eighth of the program: less than the fast node has, so that the tenant always has its floor.
FLOOR = "floor = '16MiB'"
PAGES_PER_MIB = 256


def _spilled(guest: Guest) -> Stairs:
    """Starts a program most of which is on the slow node; its hot part is the end, which
    spilled."""
    group = guest.cgroup("lone")
    write(PER_CPU_LISTS, 100)
    guest.ballast(LEFT_MIB)
    return guest.stairs(
        group,
        mib=ALL_MIB,
        hot_mib=HOT_MIB,
        hot_at_mib=ALL_MIB - HOT_MIB,
        pattern="fixed",
        cold=10,
        forget=1,
    )


def _fast_mib(stairs: Stairs) -> float:
    return stairs.region().nodes[0] / PAGES_PER_MIB


def _never_falls(guest: Guest, lines: str) -> None:
    stairs = _spilled(guest)
    before = _fast_mib(stairs)
    assert before < ALL_MIB / 2, f"most of it must be slow: {stairs.describe()}"
    tenants = [("lone", f"cgroup = 'lone'\n{lines}")]
    daemon = guest.tierwised(configuration(guest, "tierwise", tenants))
    course, until = [before], time.monotonic() + WATCHED_S
    while time.monotonic() < until:
        assert daemon.running(), f"tierwised ended: {daemon.printed()}"
        course.append(_fast_mib(stairs))
        time.sleep(EVERY_S)
    guest.figure("before_mib", before)
    guest.figure("least_mib", min(course))
    guest.figure("last_mib", course[-1])
    guest.figure("hot_fast_share", stairs.hot().share(0))
    assert min(course) >= before - IN_FLIGHT_MIB, (
        f"it held {before:.1f} MiB, then {[round(mib, 1) for mib in course]}; "
        f"tierwised printed: {daemon.printed()[-1500:]}"
    )


@test(boot="hmat", needs=("tierwised",), timeout_s=400)
def a_lone_tenant_keeps_its_fast_memory(guest: Guest) -> None:
    """The engine decides about one tenant with a floor, whose hot part is slow: in the first minute
    it never has less fast memory than before the daemon."""
    _never_falls(guest, FLOOR)


def _pages(pid: int, words: str) -> list[int]:
    """Pages of a process's mappings whose lines have these words, on each of the two nodes."""
    lines = [line for line in read(f"/proc/{pid}/numa_maps").splitlines() if words in line]
    fields = [field.partition("=") for line in lines for field in line.split()]
    return [sum(int(pages) for key, _, pages in fields if key == f"N{node}") for node in (0, 1)]


@test(boot="hmat", needs=("tierwised",), timeout_s=300)
def daemon_leaves_fast_memory_alone(guest: Guest) -> None:
    """The daemon's memory is on the slow node. The C library, which all programs execute, stays on
    the fast one."""
    subprocess.run(["migratepages", str(os.getpid()), "1", "0"], check=True)
    before = _pages(os.getpid(), "libc.so")
    assert before[0] > 0 and before[1] == 0, f"the library must be fast: {before}"
    daemon = guest.tierwised(configuration(guest, "tierwise", [("lone", "cgroup = 'lone'")]))
    guest.wait_until(lambda: "waits for it" in daemon.printed(), 60, daemon.printed)
    own = _pages(daemon.pid, "heap")
    guest.figure("heap_fast_pages", own[0])
    assert own[1] > 0 and own[0] <= own[1] / 10, f"the daemon's heap is fast: {own}"
    after = _pages(os.getpid(), "libc.so")
    assert after[1] == 0, f"the library was moved: {after}"
