"""Tests of the placement of pages: hot ones on the fast node, cold ones on the slow one."""

import time
from collections.abc import Callable

from tierguest import Guest, test
from tierguest.ageing import Ageing
from tierguest.configuration import configuration
from tierguest.files import write
from tierguest.settings import NUMA_SCANNING, PER_CPU_LISTS
from tierguest.stairs import Stairs

HOT_MIB = 48
ALL_MIB = 608
# The fast node holds the hot part, the memory that memtis and the kernel keep free (3 % of the
# node: 31 MiB), and little more, so cold pages must be demoted. tierwise shares the memory above
# the kernel's high watermark; other policies use the memory down to the low watermark. A tenth of
# the cold part fits beside the hot one, even if nothing is kept free.
LEFT_MIB = 90
LEFT_TO_SHARE_MIB = 104
# Seconds of the runs that are only measured: twice the time that they need. The programs do not
# change meanwhile.
CONVERGENCE_S = 20
# Seconds of a run without moves: pages that are not moved in this time are not moved later either.
STILL_S = 5
# An idle host needs half a minute, and a busy one ten times as long, because its guests get less
# CPU time.
LIMIT_S = 300


def _stairs(guest: Guest, forget: int = 0, left_mib: int = LEFT_MIB) -> Stairs:
    """Starts a program on the fast node that spills to the slow one; the hot part is the end, which
    spilled."""
    group = guest.cgroup("stairs")
    # A hundredth of a zone: memory on per-CPU lists causes no memory pressure.
    write(PER_CPU_LISTS, 100)
    guest.ballast(left_mib)
    return guest.stairs(
        group,
        mib=ALL_MIB,
        hot_mib=HOT_MIB,
        hot_at_mib=ALL_MIB - HOT_MIB,
        pattern="fixed",
        forget=forget,
    )


def _shares(guest: Guest, name: str, stairs: Stairs) -> tuple[float, float]:
    hot, cold = stairs.hot().share(0), stairs.cold().share(1)
    guest.figure(f"{name}_hot_fast_share", hot)
    guest.figure(f"{name}_cold_slow_share", cold)
    return hot, cold


def _converges(
    guest: Guest, name: str, policy: str | None = None, forget: int = 0, left_mib: int = LEFT_MIB
) -> None:
    stairs = _stairs(guest, forget, left_mib)
    before = stairs.hot().share(0)
    assert before < 0.5, f"the hot part must start on the slow node: {stairs.describe()}"
    daemon = guest.tierwised(
        configuration(guest, policy or name, tenants=[("stairs", "cgroup = 'stairs'")])
    )

    def placed() -> bool:
        assert daemon.running(), f"tierwised ended: {daemon.printed()}"
        return stairs.hot().share(0) >= 0.95 and stairs.cold().share(1) >= 0.90

    def saying() -> str:
        return f"{stairs.describe()}; tierwised printed: {daemon.printed()[-1500:]}"

    seconds = guest.wait_until(placed, LIMIT_S, saying, every_s=1)
    guest.figure("seconds", seconds)
    _shares(guest, name, stairs)


@test(boot="hmat", needs=("tierwised",), timeout_s=400)
def multi_clock_places_hot_and_cold(guest: Guest) -> None:
    """multi-clock places 95 % of the hot part on the fast node and 90 % of the cold part on the
    slow one."""
    _converges(guest, "multi-clock")


# memtis counts its adaptation interval in samples. A CPU supplies some ten thousand per second;
# DAMON in an emulated guest supplies a tenth of that.
FEWER_SAMPLES = (
    ("adaptation_period = 100000", "adaptation_period = 10000"),
    ("cooling_period = 2000000", "cooling_period = 200000"),
)


@test(boot="hmat", needs=("tierwised", "tierwise"), timeout_s=400)
def memtis_places_hot_and_cold(guest: Guest) -> None:
    """memtis, with DAMON's samples, places 95 % of the hot part on the fast node and 90 % of the
    cold part on the slow one."""
    recipe = guest.run("tierwise", "policies", "show", "memtis")
    for shipped, here in FEWER_SAMPLES:
        assert shipped in recipe, recipe
        recipe = recipe.replace(shipped, here)
    file = guest.directory / "memtis.toml"
    file.write_text(recipe)
    _converges(guest, "memtis", str(file), forget=1, left_mib=LEFT_TO_SHARE_MIB)


@test(boot="hmat", needs=("tierwised",), timeout_s=400, smoke=True)
def tierwise_places_hot_and_cold(guest: Guest) -> None:
    """tierwise places 95 % of the hot part on the fast node and 90 % of the cold part on the slow
    one."""
    _converges(guest, "tierwise", left_mib=LEFT_TO_SHARE_MIB)


# The user "nobody" of Debian.
NOBODY = 65534


@test(boot="hmat", needs=("tierwised",), timeout_s=400)
def another_users_program_is_placed(guest: Guest) -> None:
    """A tenant's processes belong to another user: the daemon's remaining privileges suffice to
    monitor and move them."""
    stairs = guest.stairs(
        guest.cgroup("shop"), user=NOBODY, mib=48, hot_mib=48, pattern="fixed", node=1
    )
    daemon = guest.tierwised(
        configuration(guest, "tierwise", tenants=[("shop", "cgroup = 'shop'")])
    )
    guest.wait_until(
        lambda: stairs.region().share(0) > 0.95,
        LIMIT_S,
        lambda: f"{stairs.describe()}; {daemon.printed()[-1500:]}",
    )


def _kernel_tiering(guest: Guest, _: Stairs) -> None:
    guest.demotion(True)
    guest.numa_balancing(2)
    for name in ("scan_period_min_ms", "scan_delay_ms"):
        write(NUMA_SCANNING / name, 100)
    time.sleep(CONVERGENCE_S)


def _first_touch(_: Guest, __: Stairs) -> None:
    time.sleep(STILL_S)


def _ageing(guest: Guest, stairs: Stairs) -> None:
    Ageing(guest.damon(stairs.pid)).run(CONVERGENCE_S)


BESIDE: tuple[tuple[str, Callable[[Guest, Stairs], None]], ...] = (
    ("first_touch", _first_touch),
    ("kernel_tiering", _kernel_tiering),
    ("ageing", _ageing),
)


@test(boot="hmat", timeout_s=600)
def placement_by_other_policies(guest: Guest) -> None:
    """First touch leaves the hot part in place. The kernel's own tiering and ageing like memtierd's
    are measured too."""
    for name, place in BESIDE:
        with guest.part() as part:
            stairs = _stairs(part)
            started = stairs.hot().share(0)
            place(part, stairs)
            hot, _ = _shares(guest, name, stairs)
            if name == "first_touch":
                assert abs(hot - started) < 0.02, (
                    f"it moved under a policy that must not move it: {stairs.describe()}"
                )
