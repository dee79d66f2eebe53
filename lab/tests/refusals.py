"""Tests of the daemon's message on a machine or a configuration with which it cannot work: one
sentence with the remedy."""

import os
import subprocess
import time
from collections import deque
from pathlib import Path

from tierguest import Guest, test
from tierguest.configuration import configuration
from tierguest.files import write

WITHIN_S = 200
# A page in use is free after some seconds; a page of the kernel's stays.
OFFLINE_S = 20
# The user "nobody" of Debian.
NOBODY = 65534


def _refused(guest: Guest, config: str, *words: str) -> str:
    """Returns the daemon's message when it refuses to start because of the user's mistake."""
    daemon = guest.tierwised(config)
    status = daemon.wait(WITHIN_S)
    printed = daemon.printed()
    assert status == 2, f"status {status}, and its output: {printed}"
    for word in words:
        assert word in printed, f"{word!r} is missing in: {printed}"
    return printed


@test(boot="single", needs=("tierwised", "tierwise"), timeout_s=400)
def one_node_is_only_observed(guest: Guest) -> None:
    """With one memory node the daemon only observes, reports this, and shows its tenants' usage."""
    stairs = guest.stairs(guest.cgroup("shop"), mib=32, hot_mib=8, pattern="fixed")
    daemon = guest.tierwised(configuration(guest, "tierwise", [("shop", "cgroup = 'shop'")]))
    socket = str(guest.directory / "control.sock")
    guest.wait_until(
        lambda: Path(socket).exists() and "monitors accesses with" in daemon.printed(),
        WITHIN_S,
        daemon.printed,
    )
    time.sleep(3)
    printed = guest.run("tierwise", "status", "--socket", socket)
    assert "only observes" in printed and "node 0" in printed, printed
    assert "shop" in printed and stairs.running(), printed
    # The daemon could not manage the machine, and doctor's exit code reports it.
    words = ("tierwise", "doctor", "--config", str(daemon.config))
    asked = subprocess.run(words, capture_output=True, text=True, check=False)
    assert asked.returncode == 1 and "only observe" in asked.stderr, asked


def _written(printed: str) -> list[str]:
    """Returns the configuration lines of the first message."""
    lines = [line.strip() for line in printed.splitlines()]
    is_toml = [line in ("", "[[tier]]") or " = " in line for line in lines]
    first = lines.index("[[tier]]")
    end = is_toml.index(False, first) if False in is_toml[first:] else len(lines)
    return lines[first:end]


@test(boot="flat", needs=("tierwised", "tierwise"), timeout_s=400)
def nodes_of_one_tier_can_be_distinguished(guest: Guest) -> None:
    """With two nodes in one tier the daemon observes and prints configuration lines; with those
    lines it manages."""
    tenants = [("shop", "cgroup = 'shop'")]
    daemon = guest.tierwised(configuration(guest, "multi-clock", tenants))
    guest.wait_until(lambda: "monitors accesses with" in daemon.printed(), WITHIN_S, daemon.printed)
    socket = str(guest.directory / "control.sock")
    guest.wait_until(lambda: Path(socket).exists(), WITHIN_S, daemon.printed)
    printed = guest.run("tierwise", "status", "--socket", socket)
    assert "only observes" in printed and "[[tier]]" in printed, printed
    daemon.stop()
    override = _written(printed)
    stairs = guest.stairs(guest.cgroup("shop"), mib=32, hot_mib=32, pattern="fixed", node=1)
    managing = guest.tierwised(
        configuration(guest, "multi-clock", tenants, more="\n".join(override))
    )

    def placed() -> bool:
        assert managing.running(), f"tierwised ended: {managing.printed()}"
        return stairs.region().share(0) > 0.9

    guest.wait_until(
        placed,
        WITHIN_S,
        lambda: f"{stairs.describe()}; {managing.printed()}; configured {override}",
    )


@test(boot="hmat", needs=("tierwised",), timeout_s=400, smoke=True)
def mistakes_in_the_file_are_explained(guest: Guest) -> None:
    """Unknown keys, an unknown policy and floors above the capacity are refused with file, line,
    key and the allowed values."""
    good = configuration(guest, "tierwise", [("shop", "cgroup = 'shop'")])
    _refused(
        guest,
        good.replace("budget_percent", "budget_procent"),
        "budget_procent",
        "budget_percent",
        ".toml:",
    )
    _refused(guest, good.replace('"tierwise"', '"tierwize"', 1), "tierwize", "tierwise", ".toml:")
    huge = configuration(
        guest, "tierwise", [(name, f"cgroup = '{name}'\nfloor = '700MiB'") for name in ("a", "b")]
    )
    _refused(guest, huge, "floor", "MiB")


@test(boot="hmat", needs=("tierwised",), timeout_s=400)
def without_root_the_missing_privilege_is_reported(guest: Guest) -> None:
    """Under another user the daemon moves nothing, does not fail, and reports the missing
    privilege."""
    directory = Path(guest.directory)
    os.chmod(directory, 0o777)
    stairs = guest.stairs(guest.cgroup("shop"), mib=32, hot_mib=32, pattern="fixed", node=1)
    config = directory / "mine.toml"
    config.write_text(configuration(guest, "multi-clock", [("shop", "cgroup = 'shop'")]))
    os.chmod(config, 0o644)
    words = (
        "setpriv",
        f"--reuid={NOBODY}",
        f"--regid={NOBODY}",
        "--clear-groups",
        "tierwised",
        "--config",
        str(config),
    )
    daemon = guest.start(*words)
    time.sleep(8)
    printed = daemon.printed()
    assert "root" in printed or "CAP_" in printed, (
        f"the output does not name the missing privilege: {printed}"
    )
    assert stairs.region().share(1) == 1.0, stairs.describe()
    assert "panicked" not in printed, printed


@test(boot="hmat", share="offline", needs=("tierwised",), timeout_s=400)
def a_nodes_memory_goes_offline(guest: Guest) -> None:
    """Memory of the slow node goes offline while the daemon runs: the daemon reports the remaining
    memory, and continues with that."""
    stairs = guest.stairs(guest.cgroup("shop"), mib=64, hot_mib=64, pattern="fixed")
    daemon = guest.tierwised(configuration(guest, "tierwise", [("shop", "cgroup = 'shop'")]))
    guest.wait_until(lambda: "has started" in daemon.printed(), WITHIN_S, daemon.printed)
    _take_offline(guest, 1)
    guest.wait_until(lambda: "base pages now" in daemon.printed(), WITHIN_S, daemon.printed)
    time.sleep(4)
    assert daemon.running(), daemon.printed()
    assert stairs.running() and stairs.region().share(0) == 1.0, stairs.describe()


def _take_offline(guest: Guest, node: int) -> None:
    """Takes half of a node's memory offline, or as much as the kernel lets go: it moves programs'
    pages away, and refuses for a block that holds a page of its own, or one that is in use just
    then."""
    blocks = sorted(Path(f"/sys/devices/system/node/node{node}").glob("memory[0-9]*"))
    waiting, gone = deque(blocks), 0
    problems: dict[str, str] = {}
    until = time.monotonic() + OFFLINE_S
    while gone * 2 < len(blocks) and time.monotonic() < until:
        block = waiting.popleft()
        try:
            write(block / "online", 0)
            gone += 1
        except OSError as error:
            problems[block.name] = str(error)
            waiting.append(block)
            time.sleep(0.1)
    guest.figure("blocks_offline", f"{gone} of {len(blocks)}")
    assert gone, f"no memory of node {node} goes offline: {problems}"
