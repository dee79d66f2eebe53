"""What a tenant without privileges can do to the daemon and so to the other tenants: nothing."""

import contextlib
import threading
import time
from pathlib import Path

from tierguest import Guest, test
from tierguest.configuration import configuration
from tierguest.daemon import Tierwised
from tierguest.files import write
from tierguest.program import Program

WITHIN_S = 200
# The daemon's rounds are half a second apart: some of them, in which it meets the hostile tenant.
A_WHILE_S = 10


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


def _lock(guest: Guest) -> Program:
    """A program of the hostile tenant that holds its mmap lock, since before this returns."""
    # As udev leaves it on a host.
    Path("/dev/fuse").chmod(0o666)
    locked = guest.start("lockmm", "32", cgroup=guest.cgroup("hostile"))
    guest.wait_until(lambda: locked.said() != "", 60, locked.said)
    # In so small a guest the kernel writes the page back at once, before it is locked.
    for limit in Path("/sys/class/bdi").glob("*/strict_limit"):
        write(limit, 0)
        write(limit.with_name("max_ratio"), 100)

    def is_locked() -> bool:
        words = locked.said().split()
        assert locked.running() and len(words) <= 1, f"lockmm: {locked.said()}"
        # The state of a process that waits for its file system.
        return bool(words) and _state(int(words[0])) == "D"

    guest.wait_until(is_locked, 60, locked.said)
    return locked


@test(boot="hmat", needs=("tierwised",), timeout_s=400)
def locked_address_space_stops_nobody_else(guest: Guest) -> None:
    """A tenant holds its own mmap lock for ever: the others are managed as before."""
    daemon = guest.tierwised(configuration(guest, "multi-clock", _tenants()))
    locked = _lock(guest)
    time.sleep(A_WHILE_S)
    _serves_the_healthy(guest, daemon)
    # Its kdamond can be turned off only then.
    locked.stop()
    assert daemon.stop() == 0, daemon.said()


def _kdamond_of(pid: int) -> Path:
    """The kdamond that monitors a process or one of its threads."""
    threads = {thread.name for thread in Path(f"/proc/{pid}/task").iterdir()}
    kdamonds = Path("/sys/kernel/mm/damon/admin/kdamonds")
    for target in kdamonds.glob("*/contexts/0/targets/0/pid_target"):
        if target.read_text().strip() in threads:
            return target.parents[4]
    raise LookupError(f"no kdamond monitors process {pid}")


def _command(kdamond: Path) -> None:
    """Commands a kdamond, which takes as long as its process holds the lock."""
    # If a command of the daemon's is on its way already, it holds DAMON's lock in this one's place.
    with contextlib.suppress(OSError):
        write(kdamond / "state", "commit")


def _commands_wait(daemon: Tierwised) -> bool:
    """Whether the daemon's own thread that commands kdamonds waits in the kernel."""
    threads = Path(f"/proc/{daemon.pid}/task").iterdir()
    return any(
        (thread / "comm").read_text() == "kdamonds\n" and _state(int(thread.name)) == "D"
        for thread in threads
    )


@test(boot="hmat", needs=("tierwised",), timeout_s=400)
def waiting_command_leaves_the_monitored_monitored(guest: Guest) -> None:
    """A command waits for a tenant's lock with DAMON's own held: what is monitored stays so."""
    # The fast node has room for one of its halves, so that only monitoring can tell which.
    capped = [_tenants()[0], ("healthy", "cgroup = 'healthy'\ncap = '30 MiB'")]
    daemon = guest.tierwised(configuration(guest, "tierwise", capped))
    options = {"mib": 48, "hot_mib": 24, "pattern": "stairs", "phase_s": 60, "node": 1}
    stairs = guest.stairs(guest.cgroup("healthy"), **options)
    locked = _lock(guest)
    try:
        kdamond = _kdamond_of(int(locked.said().split()[0]))
        command = threading.Thread(target=_command, args=(kdamond,), daemon=True)
        command.start()
        time.sleep(A_WHILE_S)
        assert command.is_alive() or _commands_wait(daemon), "no command waits"
        before = stairs.truth().phase

        def follows() -> bool:
            assert daemon.running(), f"tierwised ended: {daemon.said()[-2000:]}"
            return stairs.truth().phase > before and stairs.hot().share(0) > 0.9

        def found() -> str:
            return f"{stairs.describe()}; tierwised said: {daemon.said()[-2000:]}"

        guest.figure("followed_s", guest.wait_until(follows, WITHIN_S, found))
        assert command.is_alive() or _commands_wait(daemon), "no command waits"
        instances = Path("/sys/kernel/tracing/instances")
        assert any(instances.iterdir()), f"no trace instance: {daemon.said()[-2000:]}"
    finally:
        # Nothing else that waits for the lock can be ended before.
        locked.stop()
    assert daemon.stop() == 0, daemon.said()
    assert not any(instances.iterdir()), "the daemon left its trace instance"
