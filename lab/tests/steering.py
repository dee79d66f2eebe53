"""Tests of the kernel's own tiering, which the daemon steers while no tenant's limit binds."""

from pathlib import Path

from tierguest import Guest, test
from tierguest.configuration import configuration
from tierguest.files import read, table, write
from tierguest.settings import NUMA_BALANCING, NUMA_SCANNING, PER_CPU_LISTS
from tierguest.stairs import Stairs

MIB = 96
HOT_MIB = 16
# The hot part fits beside the memory that the kernel keeps free of a node of a gigabyte, some 60
# MiB, and the whole program does not.
LEFT_MIB = 128
LIMIT_S = 240
THRESHOLD = NUMA_SCANNING / "hot_threshold_ms"
TAKEN = (
    NUMA_BALANCING,
    NUMA_SCANNING / "scan_size_mb",
    NUMA_SCANNING / "scan_period_min_ms",
    NUMA_SCANNING / "scan_period_max_ms",
    NUMA_SCANNING / "scan_delay_ms",
    THRESHOLD,
    Path("/proc/sys/kernel/numa_balancing_promote_rate_limit_MBps"),
)


def _shown() -> dict[str, str]:
    return {str(path): read(path).strip() for path in TAKEN}


def _program(guest: Guest) -> Stairs:
    write(PER_CPU_LISTS, 100)
    guest.ballast(LEFT_MIB)
    return guest.stairs(
        guest.cgroup("tenant"), mib=MIB, hot_mib=HOT_MIB, node=1, pattern="fixed", cold=10
    )


def _config(guest: Guest, more: str = "") -> str:
    tenant = ("tenant", f"cgroup = 'tenant'\n{more}")
    return configuration(guest, "tierwise", [tenant], steer=True)


@test(boot="hmat", needs=("tierwised",), timeout_s=500, smoke=True)
def kernel_promotes_until_a_floor_is_set(guest: Guest) -> None:
    """Without limits the kernel promotes the hot part, with the daemon's settings. With a floor the
    daemon restores the settings and places the pages itself."""
    before = _shown()
    stairs = _program(guest)
    daemon = guest.tierwised(_config(guest))
    guest.wait_until(lambda: "steers the kernel" in daemon.printed(), LIMIT_S, daemon.printed)
    promoted_before = _promoted()

    def describe() -> str:
        return f"{stairs.describe()}; {_shown()}; {daemon.printed()[-1500:]}"

    hot_is_fast = lambda: stairs.hot().share(0) > 0.9  # noqa: E731
    guest.figure("seconds", guest.wait_until(hot_is_fast, LIMIT_S, describe))
    guest.figure("hot_threshold_ms", int(read(THRESHOLD)))
    guest.figure("promoted", _promoted() - promoted_before)
    assert _promoted() > promoted_before, describe()
    daemon.reload(_config(guest, "floor = '32MiB'"))
    guest.wait_until(lambda: "stops steering" in daemon.printed(), LIMIT_S, daemon.printed)
    guest.wait_until(lambda: _shown() == before, LIMIT_S, lambda: f"{before}, now {describe()}")
    guest.wait_until(lambda: "monitors accesses with damon" in daemon.printed(), LIMIT_S, describe)
    daemon.reload(_config(guest))
    steers_again = lambda: daemon.printed().count("steers the kernel") == 2  # noqa: E731
    guest.wait_until(steers_again, LIMIT_S, describe)
    assert daemon.running(), describe()


@test(boot="hmat", needs=("tierwised", "tierwise"), timeout_s=300)
def an_slo_binds_when_half_is_exceeded(guest: Guest) -> None:
    """Beside a service with an SLO the daemon steers after the first report within half of it, and
    no longer after one above."""
    before = _shown()
    _program(guest)
    daemon = guest.tierwised(_config(guest, "class = 'latency-critical'\nslo_ms = 4.0"))

    def report(p99: str) -> None:
        socket = ("--socket", str(guest.directory / "control.sock"))
        guest.run("tierwise", "daemon", "report", "--tenant", "tenant", "--p99", p99, *socket)

    guest.wait_until(lambda: "monitors accesses with" in daemon.printed(), LIMIT_S, daemon.printed)
    assert "steers the kernel" not in daemon.printed(), daemon.printed()
    report("1ms")
    guest.wait_until(lambda: "steers the kernel" in daemon.printed(), LIMIT_S, daemon.printed)
    report("2.1ms")
    stopped = "stops steering the kernel's tiering: the P99 of tenant"
    guest.wait_until(lambda: stopped in daemon.printed(), LIMIT_S, daemon.printed)
    guest.wait_until(lambda: _shown() == before, LIMIT_S, lambda: f"{before}, now {_shown()}")
    report("1ms")
    again = lambda: daemon.printed().count("steers the kernel") == 2  # noqa: E731
    guest.figure("seconds", guest.wait_until(again, LIMIT_S, daemon.printed))


def _promoted() -> int:
    return table("/proc/vmstat")["pgpromote_success"]


@test(boot="hmat", needs=("tierwised", "tierwise"), timeout_s=300, smoke=True)
def settings_of_a_killed_daemon_are_restored(guest: Guest) -> None:
    """After kill -9 `tierwise restore` restores the kernel's settings."""
    before = _shown()
    config = _config(guest)
    killed = guest.tierwised(config)
    guest.wait_until(lambda: "steers the kernel" in killed.printed(), LIMIT_S, killed.printed)
    killed.kill()
    assert _shown() != before, "the settings were never changed"
    guest.run("tierwise", "restore", "--state", str(guest.directory / "state"))
    assert _shown() == before, f"{before}, now {_shown()}"
