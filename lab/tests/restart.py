"""Tests of restarts: of the daemon, and of a program. What was hot is remembered, and nothing moves
without a reason."""

import json
import signal
import time

from tierguest import Guest, test
from tierguest.cgroup import Cgroup
from tierguest.configuration import configuration
from tierguest.daemon import Tierwised
from tierguest.files import write
from tierguest.settings import PER_CPU_LISTS
from tierguest.stairs import Stairs

ALL_MIB = 192
HOT_MIB = 32
# The fast node has room for the hot part and some of the rest, above what the kernel keeps.
LEFT_MIB = 110
FLOOR = "floor = '24MiB'"
# An idle host's guest needs half a minute.
LIMIT_S = 300
NAMES = ("first", "second", "third")
# The daemon records every ten seconds what is hot; two turns, on a busy host.
RECORDED_S = 25
FIRST_S = 10


def _program(guest: Guest, group: Cgroup, **more: object) -> Stairs:
    options = {"mib": ALL_MIB, "hot_mib": HOT_MIB, "hot_at_mib": ALL_MIB - HOT_MIB} | more
    return guest.stairs(group, pattern="fixed", forget=1, pause_us=1000, **options)


def _config(guest: Guest, names: tuple[str, ...]) -> str:
    tenants = [(name, f"cgroup = '{name}'\n{FLOOR}") for name in names]
    return configuration(guest, "tierwise", tenants)


def _seconds_until_hot_is_fast(guest: Guest, stairs: Stairs, daemon: Tierwised) -> float:
    def placed() -> bool:
        assert daemon.running(), f"tierwised ended: {daemon.printed()}"
        return stairs.hot().share(0) >= 0.9

    return guest.wait_until(
        placed, LIMIT_S, lambda: f"{stairs.describe()}; {daemon.printed()[-1500:]}", every_s=0.2
    )


def _told(guest: Guest, name: str) -> dict[str, object]:
    socket = str(guest.directory / "control.sock")
    words = ("tierwise", "explain", "--tenant", name, "--json", "--socket", socket)
    return json.loads(guest.run(*words))


def _moves(story: dict[str, object]) -> int:
    return sum(m["moves"] for m in story["moves"] if m["outcome"] == "done")


def _causes(story: dict[str, object]) -> dict[str, int]:
    return {c["because"]: c["promoted"] + c["demoted"] for c in story["causes"]}


def _stop(daemon: Tierwised, how: signal.Signals) -> None:
    daemon.signal(how)
    daemon.wait(60)


@test(boot="hmat", needs=("tierwised", "tierwise"), timeout_s=900)
def a_restart_moves_nothing_without_reason(guest: Guest) -> None:
    """Three tenants with floors converge; the daemon restarts after SIGTERM and after SIGKILL. Each
    move of its first ten seconds has a cause that explain gives."""
    write(PER_CPU_LISTS, 100)
    guest.ballast(LEFT_MIB + 2 * 40)
    sizes = {"mib": 96, "hot_mib": 20, "hot_at_mib": 96 - 20}
    programs = {name: _program(guest, guest.cgroup(name), **sizes) for name in NAMES}
    config = _config(guest, NAMES)
    daemon = guest.tierwised(config)
    for stairs in programs.values():
        _seconds_until_hot_is_fast(guest, stairs, daemon)
    time.sleep(RECORDED_S)
    for how in (signal.SIGTERM, signal.SIGKILL):
        hot = {name: stairs.hot().share(0) for name, stairs in programs.items()}
        _stop(daemon, how)
        daemon = guest.tierwised(config)
        time.sleep(FIRST_S)
        stories = {name: _told(guest, name) for name in NAMES}
        for name, story in stories.items():
            causes = _causes(story)
            guest.figure(f"{how.name}_{name}_moves", _moves(story))
            guest.figure(f"{how.name}_{name}_causes", json.dumps(causes))
            assert sum(causes.values()) == _moves(story), f"moves without a cause: {story}"
            now = programs[name].hot().share(0)
            assert now >= hot[name] - 0.1, (
                f"{name}: {hot[name]:.2f} of its hot part were fast, then {now:.2f}: {story}"
            )


@test(boot="hmat", needs=("tierwised", "tierwise"), timeout_s=900)
def a_restarted_daemon_remembers_hot_memory(guest: Guest) -> None:
    """While no daemon runs, all of a program becomes slow. A new daemon makes the hot part fast
    again."""
    write(PER_CPU_LISTS, 100)
    guest.ballast(LEFT_MIB)
    stairs = _program(guest, guest.cgroup("one"))
    daemon = guest.tierwised(_config(guest, ("one",)))
    guest.figure("first_s", _seconds_until_hot_is_fast(guest, stairs, daemon))
    time.sleep(RECORDED_S)
    file = guest.directory / "state" / "heat.json"
    assert file.stat().st_mode & 0o777 == 0o600
    guest.figure("file_bytes", file.stat().st_size)
    _stop(daemon, signal.SIGKILL)
    guest.run("migratepages", str(stairs.pid), "0", "1", within_s=120)
    assert stairs.hot().share(0) < 0.1, stairs.describe()
    daemon = guest.tierwised(_config(guest, ("one",)))
    guest.figure("again_s", _seconds_until_hot_is_fast(guest, stairs, daemon))
    guest.figure("again_moves", _moves(_told(guest, "one")))


@test(boot="hmat", needs=("tierwised", "tierwise"), timeout_s=900)
def a_restarted_program_is_recognised(guest: Guest) -> None:
    """A program ends and starts again, in the same group and with all of its memory slow. Its hot
    part becomes fast again."""
    write(PER_CPU_LISTS, 100)
    guest.ballast(LEFT_MIB)
    group = guest.cgroup("one")
    stairs = _program(guest, group)
    daemon = guest.tierwised(_config(guest, ("one",)))
    _seconds_until_hot_is_fast(guest, stairs, daemon)
    time.sleep(RECORDED_S)
    before = _moves(_told(guest, "one"))
    stairs.stop()
    again = _program(guest, group, node=1)
    assert again.hot().share(0) < 0.1, again.describe()
    guest.figure("again_s", _seconds_until_hot_is_fast(guest, again, daemon))
    guest.figure("again_moves", _moves(_told(guest, "one")) - before)
