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
# MiB that the kernel is asked to reclaim from all pods: less than the unprotected one has, and then
# more than that.
LITTLE_MIB = 72
MORE_MIB = 72


def _protection(node: Node, pod: Pod) -> dict[str, int]:
    group = node.group(pod)
    assert group, node.describe()
    return {name: int(read(group / f"memory.{name}")) // MIB for name in ("min", "low")}


def _idle(name: str, request_mib: int, limit_mib: int = 0, cpu: str = "") -> Pod:
    command = stairs(IDLE_MIB, 50_000, hot_mib=1)
    return Pod(name, command, request_mib=request_mib, limit_mib=limit_mib, cpu=cpu)


def _reclaim(mib: int) -> None:
    """Asks for reclaim from all pods together, as pressure of the node does: the protection of
    each counts. What cannot be reclaimed is no error (EAGAIN)."""
    with contextlib.suppress(BlockingIOError):
        write(ROOT / "kubepods" / "memory.reclaim", mib * MIB)


@test(boot="hmat", needs=("tierwised", "tierwise"), timeout_s=3000)
def a_memory_request_keeps_idle_memory_fast(guest: Guest) -> None:
    """With demotion on, the kernel demotes the idle memory of a pod with a small request first,
    then that of a Burstable pod (memory.low), and none of a Guaranteed one (memory.min). A cap of
    the daemon demotes all of them."""
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
        courses = [before]
        for mib in (LITTLE_MIB, MORE_MIB):
            _reclaim(mib)
            courses.append({pod.name: round(node.fast_mib(pod), 1) for pod in pods})
        little, more = courses[1:]
        guest.figure("after_little_mib", json.dumps(little))
        guest.figure("after_more_mib", json.dumps(more))
        keep("memory-qos.json", json.dumps([protected, *courses]))
        assert protected["burstable"]["low"] and protected["guaranteed"]["min"], protected
        assert little["unprotected"] < before["unprotected"] / 2, courses
        assert little["burstable"] > before["burstable"] * 0.9, courses
        assert more["burstable"] < little["burstable"] * 0.9, courses
        assert more["guaranteed"] > before["guaranteed"] * 0.9, courses
        # The daemon moves pages by their addresses, which no protection of reclaim concerns.
        guest.demotion(False)
        text = config(guest).replace('max_floor = "1GiB"', 'max_floor = "1GiB"\ncap = "32MiB"')
        daemon = guest.tierwised(text)
        wait_for_tenants(guest, node, daemon)

        def capped() -> bool:
            return all(node.fast_mib(pod) <= 32 * 1.05 for pod in pods)

        guest.figure("capped_s", guest.wait_until(capped, PATIENCE_S, node.describe, EVERY_S))
