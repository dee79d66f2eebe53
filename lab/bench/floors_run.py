"""One run of the floors bench, in the guest: tenants fill their memory and then work side by side
for a fixed time under one policy."""

import contextlib
import signal
import time
from pathlib import Path
from typing import Any

from tierguest import Guest
from tierguest.daemon import Tierwised
from tierguest.files import read

from .course import node_mib, watermarks_mib
from .daemon import start_daemon
from .hosts import prepare
from .kdamonds import Kdamonds
from .measure import counts
from .mix_run import MIB, start_batch
from .mix_watch import MixWatch
from .neighbours import LEFT_MIB, RUN_S, floor_mib, neighbours
from .policies import POLICIES

# The daemon of each policy: its budget as installed, and whether the tenants have floors.
DAEMONS = {
    "tierwise": (False, True),
    "tierwise-installed": (True, True),
    "tierwise-no-floors": (True, False),
}


def one(guest: Guest, number: int, policy: str, spy: Path | None) -> dict[str, Any]:
    """Runs so many tenants under a policy, and returns the measurements."""
    with contextlib.chdir(guest.directory), Kdamonds() as kdamonds:
        return _one(guest, number, policy, spy, kdamonds)


def _one(
    guest: Guest, number: int, policy: str, spy: Path | None, kdamonds: Kdamonds
) -> dict[str, Any]:
    kernel = None if policy in DAEMONS else POLICIES[policy]
    if kernel is None or kernel.ballast:
        prepare(guest, "equal", LEFT_MIB)
    room = node_mib()
    tenants = {batch.name: start_batch(guest, batch) for batch in neighbours(number)}
    groups = {name: tenant.group for name, tenant in tenants.items()}
    at_start = {name: group.on_nodes() for name, group in groups.items()}
    truth = guest.truth()
    before = counts(truth, kdamonds, [])
    progress = {name: tenant.progress for name, tenant in tenants.items() if tenant.progress}
    watch = MixWatch(groups, progress, {}, truth, kdamonds)
    for tenant in tenants.values():
        tenant.process.signal(signal.SIGCONT)
    daemon: Tierwised | None = None
    if kernel is None:
        daemon = _daemon(guest, number, policy)
        watch.report_to(guest.directory / "control.sock", spy)
    else:
        first = next(iter(tenants.values()))
        kernel.start(guest, first.group, first.process.pid)
    with watch:
        time.sleep(RUN_S)
        after = counts(truth, kdamonds, [daemon.pid] if daemon else [])
    assert not daemon or daemon.running(), f"tierwised ended: {daemon.printed() if daemon else ''}"
    for name, tenant in tenants.items():
        assert tenant.process.running(), f"{name} ended: {tenant.process.printed()}"
    return {
        **after.since(before),
        "resident_mib": {name: sum(nodes) / MIB for name, nodes in at_start.items()},
        "fast_mib_at_start": {name: nodes[0] / MIB for name, nodes in at_start.items()},
        "free_mib_at_start": room["MemFree"],
        "watermarks_mib": watermarks_mib(read("/proc/zoneinfo")),
        "course": watch.points(),
    }


def _daemon(guest: Guest, number: int, policy: str) -> Tierwised:
    installed, has_floors = DAEMONS[policy]
    floor = f"\nfloor = '{floor_mib(number) * 1024:.0f}KiB'" if has_floors else ""
    tenants = [(one.name, f"cgroup = '{one.name}'{floor}") for one in neighbours(number)]
    return start_daemon(guest, tenants, installed)
