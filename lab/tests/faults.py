"""Tests of faults of a live machine: the daemon does not crash, does not leak, moves no memory of
other processes, and restores all changes."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from tierguest import Guest, test
from tierguest.configuration import configuration
from tierguest.daemon import Tierwised
from tierguest.damon import taken_places
from tierguest.files import read
from tierguest.program import resident_bytes
from tierguest.settings import NUMA_BALANCING

MIB = 1 << 20
# Several of the daemon's rounds, which are half a second apart.
A_WHILE_S = 6
WITHIN_S = 200


def _goes_on(guest: Guest, daemon: Tierwised) -> None:
    """Checks that the daemon still works: it finds and places a program that starts now."""
    group = guest.cgroup("after")
    stairs = guest.stairs(group, mib=48, hot_mib=48, pattern="fixed", node=1)

    def placed() -> bool:
        assert daemon.running(), (
            f"tierwised ended with {daemon.process.returncode}: {daemon.printed()[-2000:]}"
        )
        return stairs.region().share(0) > 0.9

    guest.wait_until(
        placed,
        WITHIN_S,
        lambda: f"{stairs.describe()}; tierwised printed: {daemon.printed()[-2000:]}",
    )


def _after(*tenants: tuple[str, str]) -> list[tuple[str, str]]:
    return [*tenants, ("after", "cgroup = 'after'")]


@test(boot="hmat", needs=("tierwised",), timeout_s=400)
def processes_end_while_their_pages_move(guest: Guest) -> None:
    """Programs are killed while their pages move, one after the other; the daemon reports events,
    not errors."""
    group = guest.cgroup("short")
    daemon = guest.tierwised(
        configuration(guest, "multi-clock", _after(("short", "cgroup = 'short'")))
    )
    ended = 0
    for _ in range(6):
        stairs = guest.stairs(group, mib=96, hot_mib=96, pattern="fixed", node=1)
        guest.wait_until(
            lambda s=stairs: s.region().share(0) > 0.02,  # type: ignore[misc]
            WITHIN_S,
            daemon.printed,
        )
        ended += stairs.region().share(0) < 0.98
        os.kill(stairs.pid, signal.SIGKILL)
        stairs.wait(10)
    guest.figure("ended_on_the_way", ended)
    assert ended > 0, "every program was placed before it was ended: the test shows nothing"
    _goes_on(guest, daemon)
    assert "ERROR" not in daemon.printed(), daemon.printed()


@test(boot="hmat", needs=("tierwised",), timeout_s=400)
def a_group_is_removed_and_made_again(guest: Guest) -> None:
    """A tenant's cgroup is removed with its processes, and created again: the daemon waits for it
    and manages it again."""
    daemon = guest.tierwised(
        configuration(guest, "multi-clock", _after(("short", "cgroup = 'short'")))
    )
    for _ in range(2):
        with guest.part() as part:
            stairs = part.stairs(part.cgroup("short"), mib=48, hot_mib=48, pattern="fixed", node=1)
            part.wait_until(
                lambda s=stairs: s.region().share(0) > 0.9,  # type: ignore[misc]
                WITHIN_S,
                daemon.printed,
            )
        time.sleep(A_WHILE_S)
    _goes_on(guest, daemon)
    assert "ERROR" not in daemon.printed(), daemon.printed()


@test(boot="hmat", needs=("tierwised",), timeout_s=400)
def a_full_node_takes_what_fits(guest: Guest) -> None:
    """Locked memory nearly fills the fast node: pages that fit move, other moves fail without harm,
    and memory that becomes free is used."""
    group = guest.cgroup("short")
    with guest.part() as part:
        # Slightly above the memory that the kernel reserves: with less, the kernel would kill the
        # ballast.
        part.ballast(36)
        stairs = guest.stairs(group, mib=200, hot_mib=200, pattern="fixed", node=1)
        daemon = guest.tierwised(
            configuration(guest, "tierwise", _after(("short", "cgroup = 'short'")))
        )
        time.sleep(2 * A_WHILE_S)
        assert daemon.running(), daemon.printed()
        guest.figure("placed_while_full", stairs.region().share(0))
        assert stairs.region().share(0) < 0.5, (
            f"more moved than fits into the node: {stairs.describe()}"
        )
    guest.wait_until(
        lambda: stairs.region().share(0) > 0.9,
        WITHIN_S,
        lambda: f"{stairs.describe()}; {daemon.printed()[-2000:]}",
    )


@test(boot="hmat", needs=("tierwised",), timeout_s=400)
def locked_pages_move_like_others(guest: Guest) -> None:
    """mlock prevents swapping and not moving: a tenant's locked hot memory becomes fast."""
    group = guest.cgroup("short")
    stairs = guest.stairs(group, mib=48, hot_mib=48, pattern="fixed", node=1, lock=1)
    daemon = guest.tierwised(configuration(guest, "multi-clock", [("short", "cgroup = 'short'")]))
    guest.wait_until(
        lambda: stairs.region().share(0) > 0.95,
        WITHIN_S,
        lambda: f"{stairs.describe()}; {daemon.printed()[-2000:]}",
    )


@test(boot="hmat", needs=("tierwised",), timeout_s=400)
def unmanaged_processes_are_left_alone(guest: Guest) -> None:
    """The pages of programs outside the tenants stay in place, at any hotness, before and after
    process ids are reused."""
    other = guest.stairs(guest.cgroup("other"), mib=48, hot_mib=48, pattern="fixed", node=1)
    # numa_balancing is off, so that the kernel does not move it either.
    tenants = _after(("short", "cgroup = 'short'"))
    daemon = guest.tierwised(configuration(guest, "multi-clock", tenants))
    group = guest.cgroup("short")
    for _ in range(20):
        guest.start("sleep", "0.2", cgroup=group).wait(10)
    _goes_on(guest, daemon)
    assert other.region().share(1) == 1.0, f"an unmanaged process was moved: {other.describe()}"


def _with_balancing(config: str) -> str:
    return config.replace("release_damon = true", "release_damon = true\nnuma_balancing = 0")


@test(boot="hmat", needs=("tierwised", "tierwise"), timeout_s=400, smoke=True)
def changes_of_a_killed_daemon_are_restored(guest: Guest) -> None:
    """After kill -9, `tierwise restore` or the next start restores numa_balancing and the
    kdamonds."""
    guest.numa_balancing(2)
    before = taken_places()
    guest.stairs(guest.cgroup("shop"), mib=16, hot_mib=16, pattern="fixed")
    config = _with_balancing(
        configuration(guest, "multi-clock", _after(("shop", "cgroup = 'shop'")))
    )
    state = str(guest.directory / "state")

    def killed() -> None:
        daemon = guest.tierwised(config)
        guest.wait_until(
            lambda: read(NUMA_BALANCING) == "0" and taken_places() > before,
            WITHIN_S,
            daemon.printed,
        )
        # The daemon records a kdamond right after switching it on. A kdamond without a record could
        # belong to another program and stays on.
        time.sleep(A_WHILE_S)
        daemon.kill()
        assert read(NUMA_BALANCING) == "0", "something restored it"
        assert taken_places() > before, "something stopped the kdamond"

    killed()
    instances = Path("/sys/kernel/tracing/instances")
    assert any(instances.iterdir()), "the daemon reads no tracepoint"
    printed = guest.run("tierwise", "restore", "--state", state)
    assert not any(instances.iterdir()), f"the trace instance still exists: {printed}"
    assert read(NUMA_BALANCING) == "2", f"not restored: {printed}"
    assert taken_places() == before, f"the kdamond was not released: {printed}"
    killed()
    daemon = guest.tierwised(config)
    guest.wait_until(lambda: "of an earlier run" in daemon.printed(), WITHIN_S, daemon.printed)
    _goes_on(guest, daemon)
    assert daemon.stop() == 0, daemon.printed()
    assert read(NUMA_BALANCING) == "2", f"not restored at the end: {daemon.printed()}"
    assert taken_places() == before, f"the kdamond was not released at the end: {daemon.printed()}"


@test(boot="hmat", needs=("tierwised",), timeout_s=400)
def another_user_of_damon_is_undisturbed(guest: Guest) -> None:
    """Another user's kdamond runs undisturbed. The daemon only observes, reports the reason, and
    starts monitoring when the other ends."""
    other = guest.stairs(mib=16, hot_mib=4, pattern="fixed")
    with guest.part() as part:
        damon = part.damon(other.pid)
        daemon = guest.tierwised(configuration(guest, "multi-clock", _after()))
        guest.wait_until(
            lambda: "only observes: no access monitoring source" in daemon.printed(),
            WITHIN_S,
            daemon.printed,
        )
        time.sleep(A_WHILE_S)
        assert daemon.running(), daemon.printed()
        assert damon.running(), (
            f"the other user's DAMON was stopped; tierwised printed: {daemon.printed()}"
        )
    _goes_on(guest, daemon)
    assert other.running()


@test(boot="hmat", needs=("tierwised",), timeout_s=400)
def a_broken_configuration_is_not_taken(guest: Guest) -> None:
    """After SIGHUP with a mistake in the file, the daemon reports the line and keeps the old
    configuration; with a correct file it prints the differences."""
    good = configuration(guest, "multi-clock", _after())
    daemon = guest.tierwised(good)
    guest.wait_until(lambda: "monitors accesses with" in daemon.printed(), WITHIN_S, daemon.printed)
    daemon.reload(good.replace("interval_ms", "intervall_ms"))
    guest.wait_until(lambda: "not reloaded" in daemon.printed(), 20, daemon.printed)
    assert "interval_ms" in daemon.printed() and "intervall_ms" in daemon.printed(), (
        daemon.printed()
    )
    daemon.reload(good.replace('policy = "multi-clock"', 'policy = "tierwise"'))
    guest.wait_until(
        lambda: "tierwise" in daemon.printed().rpartition("not reloaded")[2], 20, daemon.printed
    )
    _goes_on(guest, daemon)


@test(boot="hmat", needs=("tierwised",), timeout_s=400)
def intervals_ignore_wall_clock_jumps(guest: Guest) -> None:
    """The wall clock is set a day ahead and back: intervals follow the monotonic clock."""
    daemon = guest.tierwised(configuration(guest, "multi-clock", _after()))
    guest.wait_until(lambda: "monitors accesses with" in daemon.printed(), WITHIN_S, daemon.printed)
    for seconds in (86_400, -86_400):
        time.clock_settime(time.CLOCK_REALTIME, time.time() + seconds)
        time.sleep(2)
    _goes_on(guest, daemon)


TENANTS = 200
CHURN_ROUNDS = 4


def _churn(guest: Guest, round_: int) -> None:
    """Starts and ends a program in half of the groups; the half alternates."""
    programs = []
    for i in range(round_ % 2, TENANTS, 2):
        group = Path(f"/sys/fs/cgroup/churn/{i}")
        words = [
            "bash",
            "-c",
            'echo $$ > "$0"; exec "$@"',
            str(group / "cgroup.procs"),
            "sleep",
            "30",
        ]
        programs.append(subprocess.Popen(words, stdin=subprocess.DEVNULL))
    time.sleep(A_WHILE_S)
    for program in programs:
        program.kill()
        program.wait()


@test(boot="hmat", needs=("tierwised",), timeout_s=400)
def tenants_come_and_go(guest: Guest) -> None:
    """200 tenants' processes start and end: the daemon's memory does not grow, and it finds all of
    them."""
    guest.cgroup("churn")
    (Path("/sys/fs/cgroup/churn/cgroup.subtree_control")).write_text("+memory")
    groups = [Path(f"/sys/fs/cgroup/churn/{i}") for i in range(TENANTS)]
    for group in groups:
        group.mkdir()
    try:
        tenants = _after(*((f"t{i}", f"cgroup = 'churn/{i}'") for i in range(TENANTS)))
        daemon = guest.tierwised(configuration(guest, "tierwise", tenants))
        sizes = []
        for round_ in range(CHURN_ROUNDS):
            _churn(guest, round_)
            assert daemon.running(), daemon.printed()[-2000:]
            sizes.append(resident_bytes(daemon.pid) / MIB)
        guest.figure("rss_mib_by_round", " ".join(f"{size:.1f}" for size in sizes))
        # After the second round both halves have run once; later growth would be a leak.
        assert sizes[-1] - sizes[1] < 2, f"the daemon grows: {sizes} MiB"
        _goes_on(guest, daemon)
    finally:
        for group in groups:
            guest.wait_until(
                lambda g=group: not read(g / "cgroup.procs"),  # type: ignore[misc]
                10,
                "processes stay",
            )
            group.rmdir()


@test(boot="hmat", needs=("tierwised", "tierwise"), timeout_s=400)
def commands_while_it_runs(guest: Guest) -> None:
    """Adds, changes and removes tenants, pauses and resumes, changes the policy and reports
    latency, all over the socket."""
    daemon = guest.tierwised(configuration(guest, "multi-clock", _after()))
    guest.wait_until(lambda: "monitors accesses with" in daemon.printed(), WITHIN_S, daemon.printed)
    socket = str(guest.directory / "control.sock")

    def command(*words: str) -> str:
        return guest.run("tierwise", "daemon", *words, "--socket", socket)

    def status() -> dict[str, object]:
        view: dict[str, object] = json.loads(
            guest.run("tierwise", "status", "--json", "--socket", socket)
        )
        return view

    guest.stairs(guest.cgroup("shop"), mib=16, hot_mib=4, pattern="fixed")
    printed = command("tenant", "add", "shop", "--cgroup", "shop", "--floor", "8MiB")
    assert "shop" in printed, printed
    command("tenant", "set", "shop", "--cap", "64MiB")
    command("report", "--tenant", "shop", "--p99", "12ms")
    command("policy", "tierwise")
    command("pause")
    time.sleep(2)
    view = status()
    assert view["mode"] == "paused" and view["policy"] == "tierwise", view
    tenants = view["tenants"]
    shop = next(one for one in tenants if one["name"] == "shop")  # type: ignore[attr-defined]
    assert shop["p99_ms"] == 12.0 and shop["processes"] == 1, shop
    assert shop["tiers"][0]["cap_bytes"] == 64 * MIB, shop
    command("resume")
    assert "shop" in guest.run("tierwise", "explain", "--tenant", "shop", "--socket", socket)
    command("tenant", "remove", "shop")
    wrong = subprocess.run(
        [
            shutil.which("tierwise") or "tierwise",
            "daemon",
            "tenant",
            "remove",
            "shopp",
            "--socket",
            socket,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert wrong.returncode == 2 and "shopp" in wrong.stderr, wrong
    _goes_on(guest, daemon)
