"""Tests of memory of no tenant: idle memory is demoted for tenants, and used memory stays."""

import time

from tierguest import Guest, test
from tierguest.ballast import free_mib
from tierguest.cgroup import Cgroup
from tierguest.configuration import configuration
from tierguest.files import table, write
from tierguest.program import processor_seconds
from tierguest.settings import PER_CPU_LISTS
from tierguest.stairs import Stairs

MIB = 1 << 20
# The tenant's hot part fits into the fast node only if half of the idle memory is demoted.
LEFT_MIB = 64
IDLE_MIB = 128
IDLE_HOT_MIB = 8
TENANT_MIB = 192
TENANT_HOT_MIB = 96
# Seconds of idleness. An emulated program accesses its hot part several times a second.
IDLE_S = 4
LIMIT_S = 300
# In a timed guest: an owner that works on one half of its memory at a time, for some two seconds of
# CPU time if it is fast. Its other half is idle meanwhile.
OWNER_MIB = 32
OWNER_OPERATIONS = 25_000_000
OWNER_IDLE_S = 1
WANTING_MIB = 48
# Several intervals of idleness: if memory is short, the first is demoted after two.
STILL_S = 6 * IDLE_S


def _machine(guest: Guest) -> tuple[Stairs, Stairs]:
    """Fills the fast node with an idle program and a ballast, and starts a tenant on the slow
    node."""
    write(PER_CPU_LISTS, 100)
    idle = guest.stairs(
        guest.cgroup("idle"),
        mib=IDLE_MIB,
        hot_mib=IDLE_HOT_MIB,
        node=0,
        pattern="fixed",
        pause_us=10_000,
    )
    guest.ballast(LEFT_MIB)
    tenant = guest.stairs(
        guest.cgroup("tenant"), mib=TENANT_MIB, hot_mib=TENANT_HOT_MIB, node=1, pattern="fixed"
    )
    return idle, tenant


def _config(guest: Guest, idle_s: int, steer: bool = False) -> str:
    config = configuration(
        guest,
        "tierwise",
        tenants=[("tenant", "cgroup = 'tenant'")],
        more=f"[move]\nunmanaged_idle_s = {idle_s}\n",
        steer=steer,
    )
    return config.replace("release_damon = true", "release_damon = true\ndemotion = true")


@test(boot="hmat", needs=("tierwised",), timeout_s=500, smoke=True)
def idle_unmanaged_memory_makes_room(guest: Guest) -> None:
    """Idle memory of no tenant is demoted until a tenant's hot memory is fast. Memory that its
    owner uses stays fast, and nothing is swapped."""
    _idle_memory_makes_room(guest, steer=False)


@test(boot="hmat", needs=("tierwised",), timeout_s=500)
def idle_memory_makes_room_for_scans(guest: Guest) -> None:
    """The same while the kernel promotes and the daemon steers it."""
    _idle_memory_makes_room(guest, steer=True)


def _idle_memory_makes_room(guest: Guest, steer: bool) -> None:
    idle, tenant = _machine(guest)
    before = idle.cold().share(0)
    swapped = table("/proc/vmstat")["pswpout"]
    assert before > 0.95, f"it must start on the fast node: {idle.describe()}"
    daemon = guest.tierwised(_config(guest, IDLE_S, steer))

    def saying() -> str:
        return (
            f"tenant {tenant.describe()}; idle {idle.describe()}; {free_mib(0)} MiB free; "
            f"{daemon.printed()[-1500:]}"
        )

    def served() -> bool:
        assert daemon.running(), f"tierwised ended: {daemon.printed()}"
        return tenant.hot().share(0) > 0.9

    guest.figure("seconds", guest.wait_until(served, LIMIT_S, saying))
    guest.figure("idle_hot_fast_share", idle.hot().share(0))
    guest.figure("idle_cold_fast_share", idle.cold().share(0))
    assert "makes room for tenants" in daemon.printed(), daemon.printed()
    assert ("steers the kernel" in daemon.printed()) == steer, daemon.printed()
    assert idle.cold().share(0) < 0.8, f"idle memory stayed: {saying()}"
    assert idle.hot().share(0) > 0.75, f"memory in use was demoted: {saying()}"
    assert table("/proc/vmstat")["pswpout"] == swapped, "memory was swapped"


@test(boot="hmat", needs=("tierwised",), timeout_s=300)
def unmanaged_memory_can_be_left_alone(guest: Guest) -> None:
    """With `move.unmanaged_idle_s = 0` idle memory of no tenant stays on the fast node."""
    idle, tenant = _machine(guest)
    daemon = guest.tierwised(_config(guest, 0))
    guest.wait_until(lambda: "has started" in daemon.printed(), LIMIT_S, daemon.printed)
    time.sleep(STILL_S)
    assert daemon.running(), f"tierwised ended: {daemon.printed()}"
    share = idle.cold().share(0)
    guest.figure("idle_cold_fast_share", share)
    assert share > 0.95, f"idle memory was demoted: {idle.describe()}; {daemon.printed()[-1500:]}"


@test(boot="timed", needs=("tierwised",), timeout_s=900, measures=True)
def owners_cost_of_the_way_back(guest: Guest) -> None:
    """What it costs an owner of idle memory that this memory made room for a tenant: CPU seconds
    of the same work on memory that stayed, and on memory that was demoted while it was idle."""
    groups = guest.cgroup("owner"), guest.cgroup("tenant")
    stayed = _seconds_on_other_half(guest, *groups, idle_s=0)
    demoted = _seconds_on_other_half(guest, *groups, idle_s=OWNER_IDLE_S)
    guest.figure("stayed_s", stayed[0])
    guest.figure("demoted_s", demoted[0])
    guest.figure("stayed_fast_share", stayed[1])
    guest.figure("demoted_fast_share", demoted[1])
    guest.figure("demoted_fast_share_at_end", demoted[2])
    assert stayed[1] > 0.95, "memory was demoted although it must stay"
    assert demoted[1] < 0.7, "idle memory was not demoted"


def _seconds_on_other_half(
    guest: Guest, owners: Cgroup, tenants: Cgroup, idle_s: int
) -> tuple[float, float, float]:
    """Returns the CPU seconds of an owner's work on the half that was idle before, and the fast
    share of that half when the work starts and when it ends."""
    write(PER_CPU_LISTS, 100)
    owner = guest.stairs(
        owners,
        mib=OWNER_MIB,
        hot_mib=OWNER_MIB // 2,
        node=0,
        operations=OWNER_OPERATIONS,
    )
    ballast = guest.ballast(LEFT_MIB - OWNER_MIB)
    tenant = guest.stairs(tenants, mib=WANTING_MIB, hot_mib=WANTING_MIB, node=1, pattern="fixed")
    daemon = guest.tierwised(_config(guest, idle_s, steer=True))

    def begins(phase: int) -> float:
        """The owner's CPU time when a phase begins."""
        guest.wait_until(lambda: owner.truth().phase >= phase, LIMIT_S, daemon.printed, 0.01)
        return processor_seconds(owner.pid)

    guest.wait_until(lambda: "steers the kernel" in daemon.printed(), LIMIT_S, daemon.printed)
    # The half that is idle for all of the next phase.
    phase = owner.truth().phase + 2
    began = begins(phase)
    at_start = owner.hot().share(0)
    took = begins(phase + 1) - began
    at_end = owner.cold().share(0)
    assert daemon.running(), f"tierwised ended: {daemon.printed()}"
    for program in (daemon, tenant, owner, ballast):
        program.stop()
    return took, at_start, at_end
