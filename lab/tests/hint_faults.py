"""Tests of hint faults as the source of access monitoring: the kernel's settings, and the policies
that need them."""

from pathlib import Path

from tierguest import Guest, test
from tierguest.configuration import configuration
from tierguest.daemon import Tierwised
from tierguest.files import read
from tierguest.settings import NUMA_BALANCING, NUMA_SCANNING
from tierguest.stairs import Stairs

MIB = 128
HOT_MIB = 32
LIMIT_S = 300
RATE_LIMIT = Path("/proc/sys/kernel/numa_balancing_promote_rate_limit_MBps")
TAKEN = (
    NUMA_BALANCING,
    RATE_LIMIT,
    NUMA_SCANNING / "scan_size_mb",
    NUMA_SCANNING / "scan_period_min_ms",
    NUMA_SCANNING / "scan_period_max_ms",
)


def _shown() -> dict[str, str]:
    return {str(path): read(path).strip() for path in TAKEN}


def _program(guest: Guest) -> Stairs:
    return guest.stairs(
        guest.cgroup("shop"), mib=MIB, hot_mib=HOT_MIB, hot_at_mib=48, pattern="fixed", node=1
    )


def _daemon(guest: Guest, policy: str, source: str, more: str = "") -> Tierwised:
    tenants = [("shop", "cgroup = 'shop'")]
    return guest.tierwised(configuration(guest, policy, tenants, source=source, more=more))


def _wait_for_faults(guest: Guest, daemon: Tierwised) -> None:
    """Waits until the daemon has taken the settings and as many pages have faulted as are hot."""

    def describe() -> str:
        return f"{_shown()}; {daemon.printed()[-1500:]}"

    taken = lambda: _shown()[str(NUMA_BALANCING)] == "2"  # noqa: E731
    guest.wait_until(taken, LIMIT_S, describe)
    before = guest.vmstat()["numa_hint_faults"]
    enough = HOT_MIB * 256
    guest.wait_until(
        lambda: guest.vmstat()["numa_hint_faults"] - before > enough,
        LIMIT_S,
        describe,
    )


@test(boot="hmat", needs=("tierwised",), timeout_s=700, smoke=True)
def kernel_samples_and_moves_nothing(guest: Guest) -> None:
    """The kernel poisons and promotes nothing, and has its settings back after the daemon."""
    before = _shown()
    stairs = _program(guest)
    promoted = guest.vmstat()["pgpromote_success"]
    # The policy that moves nothing.
    daemon = _daemon(guest, "none", "hint-faults")
    _wait_for_faults(guest, daemon)
    during = _shown()
    assert (during[str(NUMA_BALANCING)], during[str(RATE_LIMIT)]) == ("2", "0"), during
    assert guest.vmstat()["pgpromote_success"] == promoted, stairs.describe()
    assert stairs.hot().share(0) == 0, stairs.describe()
    assert daemon.stop() == 0, daemon.printed()
    assert _shown() == before, f"{before}, now {_shown()}"


@test(boot="hmat", needs=("tierwised", "tierwise"), timeout_s=700, smoke=True)
def settings_of_a_killed_scan_are_restored(guest: Guest) -> None:
    """After kill -9 `tierwise restore` restores the settings of the scan."""
    before = _shown()
    _program(guest)
    daemon = _daemon(guest, "none", "hint-faults")
    _wait_for_faults(guest, daemon)
    daemon.kill()
    assert _shown() != before, "the settings were never changed"
    guest.run("tierwise", "restore", "--state", str(guest.directory / "state"))
    assert _shown() == before, f"{before}, now {_shown()}"


@test(boot="hmat", needs=("tierwised",), timeout_s=700)
def tpp_runs_live(guest: Guest) -> None:
    """The policy tpp takes hint faults without being told, and promotes the hot part."""
    stairs = _program(guest)
    daemon = _daemon(guest, "tpp", "auto")

    def describe() -> str:
        return f"{stairs.describe()}; {_shown()}; {daemon.printed()[-1500:]}"

    guest.figure(
        "seconds", guest.wait_until(lambda: stairs.hot().share(0) > 0.95, LIMIT_S, describe)
    )
    guest.figure("cold_promoted", stairs.cold().share(0))
    assert "hint-faults, which the policy" in daemon.printed(), daemon.printed()
    assert stairs.cold().share(0) < 0.1, describe()
