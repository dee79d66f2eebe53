"""Tests that a tenant without privileges can harm neither the daemon nor, through it, the other
tenants."""

import contextlib
import json
import os
import signal
import threading
import time
from pathlib import Path

from tierguest import Guest, test
from tierguest.configuration import configuration
from tierguest.daemon import Tierwised
from tierguest.files import write
from tierguest.program import Program

WITHIN_S = 200
# Several of the daemon's rounds, which are half a second apart.
A_WHILE_S = 10


def _tenants() -> list[tuple[str, str]]:
    return [("hostile", "cgroup = 'hostile'"), ("healthy", "cgroup = 'healthy'")]


def _serves_the_healthy(guest: Guest, daemon: Tierwised) -> None:
    """Checks that a program of another tenant that starts now becomes fast."""
    group = guest.cgroup("healthy")
    stairs = guest.stairs(group, mib=48, hot_mib=48, pattern="fixed", node=1)

    def placed() -> bool:
        assert daemon.running(), f"tierwised ended: {daemon.printed()[-2000:]}"
        return stairs.region().share(0) > 0.9

    took = guest.wait_until(
        placed,
        WITHIN_S,
        lambda: f"{stairs.describe()}; tierwised printed: {daemon.printed()[-2000:]}",
    )
    guest.figure("healthy_fast_s", took)


def _state(pid: int) -> str:
    """Returns the state of a process (proc(5))."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _kdamond_of(pid: int) -> Path | None:
    """Returns the kdamond that monitors a process or one of its threads."""
    threads = {thread.name for thread in Path(f"/proc/{pid}/task").iterdir()}
    kdamonds = Path("/sys/kernel/mm/damon/admin/kdamonds")
    for target in kdamonds.glob("*/contexts/0/targets/0/pid_target"):
        if target.read_text().strip() in threads:
            return target.parents[4]
    return None


def _lock(guest: Guest, tenant: str = "hostile", *when: str, within_s: float = 60) -> Program:
    """Starts a program of a hostile tenant, and waits until it holds its mmap lock: without `when`,
    it takes the lock once the daemon monitors it."""
    # The mode that udev sets on a host.
    Path("/dev/fuse").chmod(0o666)
    locked = guest.start("lockmm", "32", *when, cgroup=guest.cgroup(tenant))
    guest.wait_until(lambda: locked.printed() != "", 60, locked.printed)
    pid = int(locked.printed().split()[0])
    if not when:
        guest.wait_until(
            lambda: _kdamond_of(pid) is not None, within_s, f"no kdamond monitors process {pid}"
        )
    # In such a small guest the kernel would write the page back at once, before the lock is taken.
    for limit in Path("/sys/class/bdi").glob("*/strict_limit"):
        write(limit, 0)
        write(limit.with_name("max_ratio"), 100)
    if not when:
        os.kill(pid, signal.SIGUSR1)

    def is_locked() -> bool:
        words = locked.printed().split()
        assert locked.running() and words[1:] in ([], ["locks"]), f"lockmm: {locked.printed()}"
        # The state of a process that waits for its file system.
        return words[1:] == ["locks"] and _state(pid) == "D"

    guest.wait_until(is_locked, within_s, locked.printed)
    return locked


@test(boot="hmat", needs=("tierwised",), timeout_s=400, smoke=True)
def locked_address_space_stops_nobody_else(guest: Guest) -> None:
    """A tenant holds its own mmap lock permanently: the daemon manages the others as before."""
    daemon = guest.tierwised(configuration(guest, "multi-clock", _tenants()))
    locked = _lock(guest)
    time.sleep(A_WHILE_S)
    _serves_the_healthy(guest, daemon)
    # Only then can its kdamond be stopped.
    locked.stop()
    assert daemon.stop() == 0, daemon.printed()


# One lock in three to one in two coincides with a move; otherwise the daemon waits in a query. Each
# attempt uses another tenant, because the daemon pauses the moves of the previous one.
ATTEMPTS = 20
# Twice as long as the daemon waits for a process.
LEFT_BEHIND_S = 2
# A move that nothing holds ends within this.
ONE_MOVE_S = 0.5
# The smallest calls: the daemon then makes many of them and spends most of its time within one.
SHORT_CALLS = """
[move]
call_p99_ms = 1
"""
# The call's number on x86-64 (arch/x86/entry/syscalls/syscall_64.tbl).
MOVE_PAGES = "279"


def _waiting_moves(daemon: Tierwised) -> set[int]:
    """Returns the daemon's threads that wait in the kernel in a call that moves pages."""
    waiting = set()
    for thread in Path(f"/proc/{daemon.pid}/task").iterdir():
        # The call's number and its arguments: pid, count, pages, nodes, status, flags. A call
        # without nodes is only a query.
        call = (thread / "syscall").read_text().split()
        moves = len(call) > 4 and call[0] == MOVE_PAGES and int(call[4], 16) != 0
        if moves and _state(int(thread.name)) == "D":
            waiting.add(int(thread.name))
    return waiting


def _held_moves(daemon: Tierwised) -> set[int]:
    """Like _waiting_moves, without the moves of other tenants, which wait for a moment."""
    waiting = _waiting_moves(daemon)
    if waiting:
        time.sleep(ONE_MOVE_S)
    return waiting & _waiting_moves(daemon)


@test(boot="hmat", needs=("tierwised",), timeout_s=550)
def lock_during_moves_stops_nobody_else(guest: Guest) -> None:
    """A tenant takes its lock while its pages are moved: the daemon abandons the call and manages
    the others."""
    names = [f"hostile-{attempt}" for attempt in range(ATTEMPTS)]
    tenants = [(name, f"cgroup = '{name}'") for name in (*names, "healthy")]
    daemon = guest.tierwised(configuration(guest, "multi-clock", tenants, more=SHORT_CALLS))
    for name in names:
        locked = _lock(guest, name, "1", within_s=WITHIN_S)
        time.sleep(LEFT_BEHIND_S)
        waiting = _held_moves(daemon)
        if waiting:
            break
        locked.stop()
    else:
        raise AssertionError(f"no lock was taken during a move: {daemon.printed()[-2000:]}")
    guest.figure("attempts", names.index(name) + 1)
    try:
        _serves_the_healthy(guest, daemon)
        left = waiting - _waiting_moves(daemon)
        assert not left, f"the call must wait all the time: {left} of {waiting} do not"
    finally:
        # No waiter for the lock can end before this.
        locked.stop()
    assert daemon.stop() == 0, daemon.printed()


def _command(kdamond: Path) -> None:
    """Writes a command to a kdamond, which waits while its process holds the lock."""
    # If the daemon is already writing a command, that one holds DAMON's lock instead.
    with contextlib.suppress(OSError):
        write(kdamond / "state", "commit")


def _commands_wait(daemon: Tierwised) -> bool:
    """Returns true if the daemon's thread for commands to kdamonds waits in the kernel."""
    threads = Path(f"/proc/{daemon.pid}/task").iterdir()
    return any(
        (thread / "comm").read_text() == "kdamonds\n" and _state(int(thread.name)) == "D"
        for thread in threads
    )


@test(boot="hmat", needs=("tierwised",), timeout_s=400)
def waiting_command_leaves_the_monitored_monitored(guest: Guest) -> None:
    """A command waits for a tenant's lock while it holds DAMON's lock: monitoring of the other
    tenants continues."""
    # The fast node holds one half of the program, and only monitoring can find the hot half.
    capped = [_tenants()[0], ("healthy", "cgroup = 'healthy'\ncap = '30 MiB'")]
    daemon = guest.tierwised(configuration(guest, "tierwise", capped))
    options = {"mib": 48, "hot_mib": 24, "pattern": "stairs", "phase_s": 60, "node": 1}
    stairs = guest.stairs(guest.cgroup("healthy"), **options)
    locked = _lock(guest)
    try:
        kdamond = _kdamond_of(int(locked.printed().split()[0]))
        assert kdamond is not None, "the kdamond left the locked process"
        command = threading.Thread(target=_command, args=(kdamond,), daemon=True)
        command.start()
        time.sleep(A_WHILE_S)
        assert command.is_alive() or _commands_wait(daemon), "no command waits"
        before = stairs.truth().phase

        def follows() -> bool:
            assert daemon.running(), f"tierwised ended: {daemon.printed()[-2000:]}"
            return stairs.truth().phase > before and stairs.hot().share(0) > 0.9

        def found() -> str:
            return f"{stairs.describe()}; tierwised printed: {daemon.printed()[-2000:]}"

        guest.figure("followed_s", guest.wait_until(follows, WITHIN_S, found))
        assert command.is_alive() or _commands_wait(daemon), "no command waits"
        instances = Path("/sys/kernel/tracing/instances")
        assert any(instances.iterdir()), f"no trace instance: {daemon.printed()[-2000:]}"
    finally:
        # No other waiter for the lock can end before this.
        locked.stop()
    assert daemon.stop() == 0, daemon.printed()
    assert not any(instances.iterdir()), "the daemon left its trace instance"


SHARED_MIB = 16


def _failed_moves(guest: Guest) -> int:
    """Returns the number of the daemon's promotions that failed because pages were shared or
    busy."""
    socket = str(guest.directory / "control.sock")
    view = json.loads(guest.run("tierwise", "status", "--json", "--socket", socket))
    return sum(row["count"] for row in view["counters"]["promote_fail"] if row["reason"] == "busy")


@test(boot="hmat", needs=("tierwised", "tierwise"), timeout_s=550)
def shared_memory_moves_only_if_configured(guest: Guest) -> None:
    """Memory that two tenants map stays in place; with move.shared, one tenant's accesses move it
    for both."""
    file = Path("/dev/shm/of-both")
    groups = [guest.cgroup(name) for name in ("first", "second")]
    tenants = [(group.name, f"cgroup = '{group.name}'") for group in groups]
    # Every page is used several times between two of DAMON's checks, and the CPUs have idle time.
    sizes = {"mib": SHARED_MIB, "hot_mib": SHARED_MIB}
    options = {**sizes, "pattern": "fixed", "node": 1, "pause_us": 1000}
    try:
        shared = [guest.stairs(group, shared=file, **options) for group in groups]
    finally:
        # The memory of the removed file stays while it is mapped.
        file.unlink(missing_ok=True)
    # Only one of them uses it.
    shared[1].signal(signal.SIGSTOP)
    own = guest.stairs(groups[0], **options)

    def describe() -> str:
        found = "; ".join(stairs.describe() for stairs in (*shared, own))
        return f"{found}; tierwised printed: {daemon.printed()[-1500:]}"

    with guest.part() as part:
        daemon = part.tierwised(configuration(part, "multi-clock", tenants))

        def tried() -> bool:
            assert daemon.running(), f"tierwised ended: {daemon.printed()[-2000:]}"
            for stairs in shared:
                assert stairs.region().share(1) == 1.0, f"it was moved: {describe()}"
            # A block has 256 KiB, and moves of nearly all shared blocks were requested.
            return own.region().share(0) > 0.9 and _failed_moves(part) > SHARED_MIB * 3

        guest.figure("own_fast_s", guest.wait_until(tried, WITHIN_S, describe, every_s=1))
        assert daemon.stop() == 0, daemon.printed()
    with guest.part() as part:
        more = "[move]\nshared = true\n"
        daemon = part.tierwised(configuration(part, "multi-clock", tenants, more=more))

        def moved() -> bool:
            assert daemon.running(), f"tierwised ended: {daemon.printed()[-2000:]}"
            return all(stairs.region().share(0) > 0.9 for stairs in shared)

        guest.figure("shared_fast_s", guest.wait_until(moved, WITHIN_S, describe, every_s=1))
