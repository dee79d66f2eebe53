"""Tests of the kernel's own promotion of hot pages from the slow node."""

import time

from tierguest import Absence, Guest, test
from tierguest.damon import Damon
from tierguest.files import write
from tierguest.settings import NUMA_SCANNING
from tierguest.stairs import Stairs

# A scan period of 0.1 s instead of 1 s, which shortens the tests.
SCAN_PERIOD_MS = 100
# A region that is found accessed in a quarter of 20 checks is in use.
IN_USE = 5
# At first a region holds hot and cold pages; after this many aggregations, a second, DAMON has
# split it.
SETTLED_AGE = 10


def _promoting(guest: Guest, stairs: Stairs) -> Damon:
    return guest.damon(
        stairs.pid,
        action="migrate_hot",
        min_accesses=IN_USE,
        min_age=SETTLED_AGE,
        target_node=0,
    )


def _slow_stairs(guest: Guest) -> Stairs:
    return guest.stairs(mib=64, hot_mib=8, hot_at_mib=16, pattern="fixed", node=1)


@test(boot="hmat")
def numa_balancing_promotes_hot_pages(guest: Guest) -> None:
    """numa_balancing=2 promotes the hot part to the fast node, and leaves the rest in place."""
    guest.numa_balancing(2)
    for name in ("scan_period_min_ms", "scan_delay_ms"):
        write(NUMA_SCANNING / name, SCAN_PERIOD_MS)
    promoted = guest.vmstat()["pgpromote_success"]
    stairs = _slow_stairs(guest)
    seconds = guest.wait_until(lambda: stairs.hot().share(0) > 0.5, 90, stairs.describe, every_s=1)
    guest.figure("half_promoted_s", seconds)
    assert guest.vmstat()["pgpromote_success"] - promoted >= stairs.hot().nodes[0] // 2
    assert stairs.cold().share(1) > 0.95, stairs.describe()


def _damon_promotes_nothing(guest: Guest) -> None:
    """The action can be set, but has no effect for virtual addresses."""
    stairs = _slow_stairs(guest)
    damon = _promoting(guest, stairs)
    time.sleep(5)
    assert damon.applied_bytes() == 0, f"{damon.applied_bytes()} bytes were migrated"
    assert stairs.hot().share(1) == 1.0, stairs.describe()


@test(boot="hmat", absences={"6.12": Absence("vaddr has no migrate_hot", _damon_promotes_nothing)})
def damon_promotes_by_process(guest: Guest) -> None:
    """DAMOS migrate_hot on a process's own addresses promotes the hot part to the fast node."""
    stairs = _slow_stairs(guest)
    damon = _promoting(guest, stairs)
    guest.figure(
        "promoted_s",
        guest.wait_until(lambda: stairs.hot().share(0) > 0.9, 60, stairs.describe, every_s=1),
    )
    assert damon.applied_bytes() > 0
    guest.figure("cold_left_slow_share", stairs.cold().share(1))
    assert stairs.cold().share(1) > 0.8, stairs.describe()
