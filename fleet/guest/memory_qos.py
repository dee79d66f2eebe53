"""A measurement: what memory.min and memory.low, which the kubelet's MemoryQoS sets from the memory
request of a pod, do to its fast memory when the kernel demotes."""

import contextlib
import json

from daemon_of_pods import config, wait_for_tenants
from kube import MIB, PATIENCE_S, Node, Pod, keep
from sharing import EVERY_S, stairs
from tierguest import Guest, test
from tierguest.cgroup import ROOT
from tierguest.files import read, write

# A pod that uses one MiB of its memory and leaves the rest idle.
IDLE_MIB = 96
# Since Kubernetes 1.37 the kubelet has the feature, and reserves nothing without this setting.
RESERVATION = {"memoryReservationPolicy": "TieredReservation"}
# MiB that the kernel is asked to reclaim from all pods: more than the unprotected one has.
RECLAIMED_MIB = 150


def _protection(node: Node, pod: Pod) -> dict[str, int]:
    group = node.group(pod)
    assert group, node.describe()
    return {name: int(read(group / f"memory.{name}")) // MIB for name in ("min", "low")}


def _idle(name: str, request_mib: int, limit_mib: int = 0, cpu: str = "") -> Pod:
    command = stairs(IDLE_MIB, 50_000, hot_mib=1)
    return Pod(name, command, request_mib=request_mib, limit_mib=limit_mib, cpu=cpu)


def _reclaim(node: Node) -> None:
    """Asks for reclaim from all pods together, as pressure of the node does: the protection of each
    counts. What cannot be reclaimed is no error (EAGAIN)."""
    with contextlib.suppress(BlockingIOError):
        write(ROOT / "kubepods" / "memory.reclaim", RECLAIMED_MIB * MIB)


@test(boot="hmat", needs=("tierwised", "tierwise"), timeout_s=3000)
def a_memory_request_keeps_idle_memory_fast(guest: Guest) -> None:
    """With demotion on, the kernel demotes the idle memory of a pod with a small request, and not
    that of pods whose request covers it; a cap of the daemon demotes it all the same."""
    with Node(guest, settings=RESERVATION) as node:
        pods = [
            node.start(_idle("unprotected", 1), IDLE_MIB),
            node.start(_idle("burstable", IDLE_MIB + 32), IDLE_MIB),
            node.start(_idle("guaranteed", IDLE_MIB + 32, IDLE_MIB + 32, "400m"), IDLE_MIB),
        ]
        protected = {pod.name: _protection(node, pod) for pod in pods}
        guest.figure("memory_min_low_mib", json.dumps(protected))
        before = {pod.name: round(node.fast_mib(pod), 1) for pod in pods}
        guest.figure("before_mib", json.dumps(before))
        guest.demotion(True)
        _reclaim(node)
        after = {pod.name: round(node.fast_mib(pod), 1) for pod in pods}
        guest.figure("after_mib", json.dumps(after))
        keep("memory-qos.json", json.dumps([protected, before, after]))
        assert protected["burstable"]["low"] and protected["guaranteed"]["min"], protected
        assert after["unprotected"] < before["unprotected"] / 2, (before, after)
        for name in ("burstable", "guaranteed"):
            assert after[name] > before[name] * 0.9, (before, after)
        # The daemon moves pages by their addresses, which no protection of reclaim concerns.
        guest.demotion(False)
        text = config(guest).replace('max_floor = "1GiB"', 'max_floor = "1GiB"\ncap = "32MiB"')
        daemon = guest.tierwised(text)
        wait_for_tenants(guest, node, daemon)

        def capped() -> bool:
            return all(node.fast_mib(pod) <= 32 * 1.05 for pod in pods)

        guest.figure("capped_s", guest.wait_until(capped, PATIENCE_S, node.describe, EVERY_S))
