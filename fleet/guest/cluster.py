"""Tests of the chart in a cluster: an API server, a scheduler and all controllers, and this node
with its kubelet.
"""

import json
import time
from pathlib import Path
from typing import Any

from chart_on_node import prepare_node, taken
from daemon_of_pods import told, view
from kube import MIB, PATIENCE_S, Pod, keep_logs, write
from member import NODE, Member, events, found, helm, kubectl
from sharing import GREEDY_MIB, IDLE_US, NEARLY, Course, crowd, stairs
from tierguest import Guest, test
from tierguest.files import read
from tierguest.settings import PER_CPU_LISTS

SOCKET = "/run/tierwise/control.sock"
CLASS = "fast-memory.tierwise.io"
CLAIMED_MIB = 96


def _template(name: str, mib: int) -> dict[str, Any]:
    exactly = {"deviceClassName": CLASS, "capacity": {"requests": {"memory": f"{mib}Mi"}}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"spec": {"devices": {"requests": [{"name": "fast", "exactly": exactly}]}}},
    }


class Chart:
    """The chart's release in the cluster."""

    def __init__(self, node: Member) -> None:
        self.node = node
        prepare_node(node)
        kubectl("create", "namespace", "tierwise")
        secret = ["create", "secret", "generic", "tierwise-metrics", "--namespace=tierwise"]
        kubectl(*secret, "--from-literal=token=dGhlIHRva2VuIG9mIGEgdGVzdA==")
        helm("install")

    def pods(self) -> list[dict[str, Any]]:
        """Returns the release's pods."""
        return list(found("pods", "--namespace=tierwise").get("items", []))

    def wanted(self) -> int | None:
        """Returns the nodes on which the controller wants a pod; nothing before it has looked."""
        status = found("daemonset", "t", "--namespace=tierwise").get("status", {})
        return status["desiredNumberScheduled"] if status.get("observedGeneration") else None

    def runs(self, *but: str) -> bool:
        """Returns true if one pod is there, with all of its containers, and none of these."""
        pods = self.pods()
        names = [pod["metadata"]["name"] for pod in pods]
        rows = [row for pod in pods for row in pod["status"].get("containerStatuses", [])]
        started = len(rows) == 2 and all("running" in row["state"] for row in rows)
        return len(names) == 1 and not set(names) & set(but) and started

    def tenants(self) -> dict[str, dict[str, Any]]:
        """Returns the daemon's tenants by name."""
        return {row["name"]: row for row in view(self.node.guest, SOCKET).get("tenants", [])}

    def floor_mib(self, pod: str) -> float:
        """Returns the floor of a pod in the daemon."""
        row = self.tenants().get(self.node.tenant(pod), {"tiers": [{}]})
        return (row["tiers"][0].get("floor_bytes") or 0) / MIB

    def claims(self) -> tuple[int, int]:
        """Returns the claims that the daemon has, and their bytes."""
        pods = view(self.node.guest, SOCKET).get("pods", {})
        return pods.get("claims", -1), pods.get("claimed_bytes", -1)

    def slices(self) -> list[dict[str, Any]]:
        """Returns what the driver has published."""
        return list(found("resourceslices").get("items", []))

    def printed(self) -> str:
        """Returns the ends of what the release's containers have printed."""
        logs = sorted(Path("/var/log/pods").glob("tierwise_*/*/*.log"))
        return "; ".join(f"{log.parent.name}: {read(log)[-500:]}" for log in logs[-6:])

    def saying(self) -> str:
        """Describes the release, for a failure's message."""
        return (
            f"{self.node.describe()}; {events()}; {told(self.node.guest, SOCKET)}; {self.printed()}"
        )

    def wait(self, figure: str, condition: Any) -> None:
        """Waits until something holds, and records the seconds that it took."""
        seconds = self.node.guest.wait_until(condition, PATIENCE_S, self.saying, every_s=1)
        print(f"lab: {figure} {seconds:.1f}", flush=True)
        self.node.guest.figure(figure, seconds)


def _starts_where_labelled(chart: Chart) -> None:
    """The controller wants no pod before the node has the label; then the pod starts, and its
    driver publishes what the daemon has to give."""
    chart.wait("no_label_s", lambda: chart.wanted() == 0)
    kubectl("label", "node", NODE, "tierwise.io/tiers=true")
    chart.wait("pod_runs_s", chart.runs)
    chart.wait("published_s", lambda: bool(chart.slices()))
    (published,) = chart.slices()
    capacity = view(chart.node.guest, SOCKET)["pods"]["capacity_bytes"]
    amount = published["spec"]["devices"][0]["capacity"]["memory"]["value"]
    assert amount == f"{capacity // (2 * MIB) * 2}Mi", (amount, capacity)
    assert published["spec"]["nodeName"] == NODE, published


def _holds_its_claim(chart: Chart) -> Course:
    """A pod with a claim holds it beside a pod that uses all of its memory all the time."""
    node = chart.node
    crowd(node.guest)
    node.start(Pod("greedy", stairs(GREEDY_MIB, 200)), GREEDY_MIB)
    node.start(Pod("plain", stairs(128, IDLE_US)), 128)
    kubectl("create", "--filename=-", given=_template("fast", CLAIMED_MIB))
    course = Course(node, "cluster")
    course.row("a pod with a claim is created")
    node.start(Pod("held", stairs(128, IDLE_US), request_mib=CLAIMED_MIB, claim="fast"), 128)
    node.guest.figure("at_start_mib", course.row()["held"])
    (claim,) = found("resourceclaims", "--namespace=shop")["items"]
    assert claim["status"]["allocation"]["devices"]["results"][0]["device"] == "fast", claim
    chart.wait("floor_known_s", lambda: chart.floor_mib("held") == CLAIMED_MIB)
    enough = CLAIMED_MIB * NEARLY
    chart.wait("held_s", lambda: course.row()["held"] >= enough)
    least = course.least(lambda: None, "held")
    node.guest.figure("least_mib", least)
    assert least >= enough, f"{least} MiB: {course.rows[-30:]}"
    node.guest.figure("after", json.dumps(course.row()))
    return course


def _upgrades(chart: Chart, course: Course) -> None:
    """A rolling upgrade replaces the pod. A pod with a claim that is created meanwhile starts, and
    both floors hold afterwards."""
    node = chart.node
    (old,) = [pod["metadata"]["name"] for pod in chart.pods()]
    helm("upgrade", "--set", "reservePercent=6")

    def leaves() -> bool:
        pods = {pod["metadata"]["name"]: pod["metadata"] for pod in chart.pods()}
        return old not in pods or "deletionTimestamp" in pods[old]

    chart.wait("upgrade_begins_s", leaves)
    kubectl("create", "--filename=-", given=_template("small", 32))
    late = node.add(Pod("late", stairs(48, IDLE_US), claim="small"))
    chart.wait("late_pod_starts_s", lambda: sum(node.on_nodes(late)) >= 48 * MIB)
    chart.wait("upgraded_s", lambda: chart.runs(old))
    floors = {"held": CLAIMED_MIB, "late": 32}
    chart.wait(
        "floors_known_s", lambda: all(chart.floor_mib(pod) == mib for pod, mib in floors.items())
    )

    def hold() -> bool:
        row = course.row("after the upgrade")
        return all(row[pod] >= mib * NEARLY for pod, mib in floors.items())

    chart.wait("floors_hold_s", hold)
    node.forget("held")
    chart.wait("unprepared_s", lambda: chart.claims() == (1, 32 * MIB))


def _is_removed(chart: Chart) -> None:
    """Without the chart a pod without a claim starts. One with a claim ends when the driver is
    there again: the kubelet has it unprepare the claim."""
    node = chart.node
    late = node.pods["late"]
    helm("uninstall")
    chart.wait("removed_s", lambda: not chart.pods())
    chart.wait("slices_gone_s", lambda: not chart.slices())
    node.start(Pod("later", stairs(16, IDLE_US)), 16)
    node.forget("late")
    chart.wait("late_ends_s", lambda: not node.processes(late, "stairs"))
    time.sleep(60)
    there = lambda: bool(found("pod", "late", "--namespace=shop"))  # noqa: E731
    node.guest.figure("late_stays", str(there()))
    helm("install")
    chart.wait("late_gone_s", lambda: not there())
    helm("uninstall")
    chart.wait("removed_again_s", lambda: not chart.pods())


@test(boot="cluster", needs=("tierwised", "tierwise"), timeout_s=6000)
def a_claim_holds_through_an_upgrade(guest: Guest) -> None:
    """The chart on a labelled node of a cluster: a claim is a floor, an upgrade keeps it, and the
    removal leaves the kernel's settings as they were."""
    with Member(guest) as node:
        try:
            write(PER_CPU_LISTS, 100)
            before = taken()
            chart = Chart(node)
            _starts_where_labelled(chart)
            assert taken() != before, "nothing is taken"
            course = _holds_its_claim(chart)
            _upgrades(chart, course)
            _is_removed(chart)
            assert taken() == before, (taken(), before)
        finally:
            keep_logs(node, "cluster")
