"""One run of the SLO bench, in the guest: services and batch programs fill their memory, then the
load rises step by step under one policy."""

import contextlib
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tierguest import Guest
from tierguest.cgroup import Cgroup
from tierguest.daemon import Tierwised
from tierguest.files import read
from tierguest.program import Program
from tierguest.wait import wait_until

from .course import node_mib, watermarks_mib
from .hosts import prepare
from .kdamonds import Kdamonds
from .measure import counts
from .mix import BATCH, FIRST, LEFT_MIB, SERVICES, SHARES, STEP_S, Batch, Service, above
from .mix_policies import DAEMONS, start_daemon
from .mix_watch import MixWatch
from .policies import POLICIES
from .run import FILL_POLL_S, FILL_S

MIB = 1 << 20
# A client may end a queue of requests late; its schedule is over by then.
WORK_S = 2 * STEP_S * len(SHARES)


@dataclass
class Tenant:
    """A tenant that has filled its memory."""

    group: Cgroup
    process: Program
    progress: Path | None = None
    """The file in which a batch program counts its work."""


def one(
    guest: Guest, policy: str, slos_us: Mapping[str, float], spy: Path | None
) -> dict[str, Any]:
    """Runs the ramp under a policy, and returns the measurements. Without SLOs no request is above
    one. `spy` is a file for the daemon's view of each second; asking for it takes the guest's
    time."""
    with contextlib.chdir(guest.directory), Kdamonds() as kdamonds:
        return _one(guest, policy, slos_us, spy, kdamonds)


def _one(
    guest: Guest,
    policy: str,
    slos_us: Mapping[str, float],
    spy: Path | None,
    kdamonds: Kdamonds,
) -> dict[str, Any]:
    kernel = None if policy in DAEMONS else POLICIES[policy]
    if kernel is None or kernel.ballast:
        prepare(guest, "equal", LEFT_MIB)
    room = node_mib()
    tenants = {
        **{batch.name: start_batch(guest, batch) for batch in BATCH},
        **{service.name: _service(guest, service) for service in SERVICES},
    }
    groups = {name: tenant.group for name, tenant in tenants.items()}
    at_start = {name: group.on_nodes() for name, group in groups.items()}
    truth = guest.truth()
    before = counts(truth, kdamonds, [])
    clients = {service.name: guest.start(*FIRST, *service.ramp()) for service in SERVICES}
    progress = {name: one.progress for name, one in tenants.items() if one.progress}
    watch = MixWatch(groups, progress, clients, truth, kdamonds)
    for batch in BATCH:
        tenants[batch.name].process.signal(signal.SIGCONT)
    daemon: Tierwised | None = None
    if kernel is None:
        daemon = start_daemon(guest, slos_us, DAEMONS[policy])
        watch.report_to(guest.directory / "control.sock", spy)
    else:
        kernel.start(guest, groups[BATCH[0].name], tenants[BATCH[0].name].process.pid)
    with watch:
        for name, client in clients.items():
            status = client.wait(WORK_S)
            assert status == 0, f"{name}'s client: status {status}: {client.printed()[-2000:]}"
        after = counts(truth, kdamonds, [daemon.pid] if daemon else [])
    assert not daemon or daemon.running(), f"tierwised ended: {daemon.printed() if daemon else ''}"
    return {
        **after.since(before),
        "resident_mib": {name: sum(nodes) / MIB for name, nodes in at_start.items()},
        "fast_mib_at_start": {name: nodes[0] / MIB for name, nodes in at_start.items()},
        "free_mib_at_start": room["MemFree"],
        "watermarks_mib": watermarks_mib(read("/proc/zoneinfo")),
        "services": {name: _steps(client, slos_us.get(name)) for name, client in clients.items()},
        "course": watch.points(),
        "settings": dict(kernel.settings) if kernel else {},
    }


def _steps(client: Program, limit_us: float | None) -> list[dict[str, Any]]:
    """Returns a client's figures of each step, with the number of requests above the SLO, if it is
    known, instead of the histogram."""
    found = []
    for line in client.json_lines():
        if line["phase"] == "step":
            histogram = line.pop("histogram")
            if limit_us is not None:
                line["late"] = above(histogram, limit_us)
            found.append(line)
    return found


def start_batch(guest: Guest, batch: Batch) -> Tenant:
    """Starts a batch program, and stops it when it has filled its memory."""
    progress = guest.directory / f"{batch.name}.progress"
    progress.write_bytes(bytes(4096))
    group = guest.cgroup(batch.name)
    process = guest.start("env", f"LAB_PROGRESS={progress}", *batch.endless(), cgroup=group)

    def filled() -> bool:
        assert process.running(), f"{process.words} ended: {process.printed()}"
        return "\n" in process.printed()

    wait_until(filled, FILL_S, process.printed, every_s=FILL_POLL_S)
    process.signal(signal.SIGSTOP)
    return Tenant(group, process, progress)


def _service(guest: Guest, service: Service) -> Tenant:
    """Starts a store and fills it."""
    group = guest.cgroup(service.name)
    process = guest.start(*FIRST, *service.server(service.socket), cgroup=group)

    one_key = (*service.client(), "keys=1")

    def listens() -> bool:
        assert process.running(), f"{process.words} ended: {process.printed()}"
        return guest.start(*one_key).wait(FILL_S) == 0

    wait_until(listens, FILL_S, process.printed)
    guest.run(*service.client(), within_s=FILL_S)
    return Tenant(group, process)
