"""What a tenant without privileges can do to the daemon and so to the other tenants: nothing."""

import time
from pathlib import Path

from tierguest import Guest, test
from tierguest.configuration import configuration
from tierguest.daemon import Tierwised

WITHIN_S = 200
# The daemon's rounds are half a second apart: some of them, in which it meets the hostile tenant.
A_WHILE_S = 10
# Stopping a daemon takes a round and what DAMON needs to end.
STOPS_WITHIN_S = 30


def _tenants() -> list[tuple[str, str]]:
    return [("hostile", "cgroup = 'hostile'"), ("healthy", "cgroup = 'healthy'")]


def _serves_the_healthy(guest: Guest, daemon: Tierwised) -> None:
    """A program of another tenant that starts now becomes fast."""
    group = guest.cgroup("healthy")
    stairs = guest.stairs(group, mib=48, hot_mib=48, pattern="fixed", node=1)

    def placed() -> bool:
        assert daemon.running(), f"tierwised ended: {daemon.said()[-2000:]}"
        return stairs.region().share(0) > 0.9

    took = guest.wait_until(
        placed, WITHIN_S, lambda: f"{stairs.describe()}; tierwised said: {daemon.said()[-2000:]}"
    )
    guest.figure("healthy_fast_s", took)


def _state(pid: int) -> str:
    """The state of a process (proc(5))."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@test(boot="hmat", needs=("tierwised",), timeout_s=400)
def locked_address_space_stops_nobody_else(guest: Guest) -> None:
    """A tenant holds its own mmap lock for ever: the others are managed as before."""
    daemon = guest.tierwised(configuration(guest, "multi-clock", _tenants()))
    group = guest.cgroup("hostile")
    # As udev leaves it on a host.
    Path("/dev/fuse").chmod(0o666)
    locked = guest.start("lockmm", "32", cgroup=group)

    def is_locked() -> bool:
        assert locked.running() and locked.said().strip().isdigit() or not locked.said(), (
            f"lockmm: {locked.said()}"
        )
        # The state of a process that waits for its file system.
        return locked.said() != "" and _state(int(locked.said())) == "D"

    guest.wait_until(is_locked, 60, locked.said)
    time.sleep(A_WHILE_S)
    assert locked.running(), locked.said()
    _serves_the_healthy(guest, daemon)
    daemon.stop()
    assert daemon.process.returncode == 0, daemon.said()
