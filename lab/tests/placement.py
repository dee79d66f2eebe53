"""Placement of pages: hot ones on the fast node, cold ones on the slow one."""

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
# The fast node holds the hot part, what memtis and the kernel keep free (3 % of the node: 31 MiB),
# and little more: cold pages have to be demoted. tierwise shares what the kernel's high watermark
# leaves, and the kernel's low one is what others go down to.
LEFT_MIB = 90
LEFT_TO_SHARE_MIB = 110
# As long as those get that are only measured, twice what they need; the programs do not change
# meanwhile.
CONVERGENCE_S = 20
# Pages that nothing moves do not move later either.
STILL_S = 5
# An idle host needs half a minute, and a busy one ten times as long: its guests have the time of
# day and not the CPU.
LIMIT_S = 300


def _stairs(guest: Guest, forget: int = 0, left_mib: int = LEFT_MIB) -> Stairs:
    """Starts on the fast node and spills to the slow one; the hot part is the end that spilled."""
    group = guest.cgroup("stairs")
    # A hundredth: with an eighth on per-CPU lists it would be unknown how much is left.
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
    assert before < 0.5, f"the hot part was to start on the slow node: {stairs.describe()}"
    daemon = guest.tierwised(
        configuration(guest, policy or name, tenants=[("stairs", "cgroup = 'stairs'")])
    )

    def placed() -> bool:
        assert daemon.running(), f"tierwised ended: {daemon.printed()}"
        return stairs.hot().share(0) >= 0.95 and stairs.cold().share(1) >= 0.90

    def saying() -> str:
        return f"{stairs.describe()}; tierwised said: {daemon.printed()[-1500:]}"

    seconds = guest.wait_until(placed, LIMIT_S, saying, every_s=1)
    guest.figure("seconds", seconds)
    _shares(guest, name, stairs)


@test(boot="hmat", needs=("tierwised",), timeout_s=400)
def multi_clock_places(guest: Guest) -> None:
    """multi-clock: 95 % of the hot part on the fast node, 90 % of the cold part on the slow one."""
    _converges(guest, "multi-clock")


# memtis counts in samples how long it waits before it adapts. A CPU gives some ten thousand a
# second; DAMON in an emulated guest gives a tenth of that.
FEWER_SAMPLES = (
    ("adaptation_period = 100000", "adaptation_period = 10000"),
    ("cooling_period = 2000000", "cooling_period = 200000"),
)


@test(boot="hmat", needs=("tierwised", "tierwise"), timeout_s=400)
def memtis_places(guest: Guest) -> None:
    """memtis, on DAMON's samples: 95 % of the hot part on the fast node, 90 % of the cold part on
    the slow one."""
    recipe = guest.run("tierwise", "policies", "show", "memtis")
    for shipped, here in FEWER_SAMPLES:
        assert shipped in recipe, recipe
        recipe = recipe.replace(shipped, here)
    file = guest.directory / "memtis.toml"
    file.write_text(recipe)
    _converges(guest, "memtis", str(file), forget=1, left_mib=LEFT_TO_SHARE_MIB)


@test(boot="hmat", needs=("tierwised",), timeout_s=400, smoke=True)
def tierwise_places(guest: Guest) -> None:
    """tierwise: 95 % of the hot part on the fast node, 90 % of the cold part on the slow one."""
    _converges(guest, "tierwise", left_mib=LEFT_TO_SHARE_MIB)


# The user "nobody" of Debian.
NOBODY = 65534


@test(boot="hmat", needs=("tierwised",), timeout_s=400)
def another_users_program_is_placed(guest: Guest) -> None:
    """A tenant's processes belong to a user: the daemon's remaining privileges suffice to monitor
    and move them."""
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
def placement_by_others(guest: Guest) -> None:
    """First touch leaves the hot part where it is; the kernel's own tiering and ageing as memtierd
    does it are measured beside."""
    for name, place in BESIDE:
        with guest.part() as part:
            stairs = _stairs(part)
            started = stairs.hot().share(0)
            place(part, stairs)
            hot, _ = _shares(guest, name, stairs)
            if name == "first_touch":
                assert abs(hot - started) < 0.02, f"nothing was to move it: {stairs.describe()}"
