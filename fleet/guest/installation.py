"""Tests of the chart's pod: the daemon in its container, its upgrade and its removal."""

import signal
import subprocess
import uuid
from pathlib import Path

from chart_on_node import prepare_node, running, taken
from daemon_of_pods import view
from kube import PARTS, PATIENCE_S, Node, Pod, keep_logs
from sharing import NEARLY, crowd, stairs
from tierguest import Guest, test
from tierguest.files import read, write
from tierguest.settings import PER_CPU_LISTS

SOCKET = "/run/tierwise/control.sock"
STATE = Path("/var/lib/tierwise")


class Installed:
    """The chart on a node, whose kubelet takes the daemon's pod from its directory."""

    def __init__(self, node: Node) -> None:
        self.node = node
        prepare_node(node)
        for directory in ("/etc/tierwise", "/etc/tierwise-token", "/run/nri"):
            Path(directory).mkdir(parents=True, exist_ok=True)
        Path("/etc/tierwise/tierwised.toml").write_text((PARTS / "daemon.toml").read_text())
        Path("/etc/tierwise-token/token").write_text("dGhlIHRva2VuIG9mIGEgdGVzdA==\n")

    def write(self, name: str = "tierwised") -> Pod:
        """Gives the kubelet a new pod of the daemon, in the place of the one of this name."""
        pod = Pod(name, (), uid=str(uuid.uuid4()))
        text = (PARTS / "daemon.yaml").read_text().replace("@NAME@", name).replace("@UID@", pod.uid)
        beside = Path("/etc/kubernetes") / f"{name}.new"
        beside.write_text(text)
        beside.rename(f"/etc/kubernetes/manifests/{name}.json")
        return pod

    def remove(self, name: str = "tierwised") -> None:
        """Takes the pod away from the kubelet."""
        Path(f"/etc/kubernetes/manifests/{name}.json").unlink()

    def view(self) -> dict[str, object]:
        """Returns the daemon's view; nothing while it does not answer."""
        return view(self.node.guest, SOCKET)

    def wait_for_pods(self, *more: str) -> float:
        """Waits until the daemon's tenants are the node's pods and itself."""
        pods = {self.node.tenant(name) for name in self.node.pods}
        expected = pods | {f"tierwise/{name}-lab" for name in more}

        def same() -> bool:
            rows = self.view().get("tenants", [])
            return isinstance(rows, list) and {row["name"] for row in rows} == expected

        def saying() -> str:
            return f"{self.view().get('tenants')}; {self.node.describe()}; {self.printed()}"

        return self.node.guest.wait_until(same, PATIENCE_S, saying, every_s=1)

    def gone(self, pod: Pod) -> bool:
        """Returns true if no container of a pod is left."""
        return self.node.group(pod) is None

    def printed(self) -> str:
        """Returns the ends of what the containers of the daemon's pods have printed."""
        logs = sorted(Path("/var/log/pods").glob("tierwise_*/*/*.log"))
        return "; ".join(f"{log}: {read(log)[-600:]}" for log in logs[-4:])


def _state_files() -> list[str]:
    return sorted(file.name for file in STATE.iterdir()) if STATE.is_dir() else []


@test(boot="hmat", needs=("tierwised", "tierwise"), timeout_s=4000)
def an_upgrade_and_removal_restore_the_kernel(guest: Guest) -> None:
    """The chart's pod holds a floor under its seccomp profile. It is replaced, its daemon is
    killed, and it is removed: the kernel's settings are those of before."""
    with Node(guest) as node:
        before = taken()
        chart = Installed(node)
        try:
            write(PER_CPU_LISTS, 100)
            settings = taken()
            crowd(guest, 260)
            node.start(Pod("greedy", stairs(300, 1000)), 300)
            held = node.start(Pod("held", stairs(96, 20_000), {"tierwise.io/floor": "64Mi"}), 96)
            assert node.fast_mib(held) < 64 * NEARLY, node.describe()
            first = chart.write()
            guest.figure("known_s", chart.wait_for_pods("tierwised"))

            def holds() -> bool:
                return node.fast_mib(held) >= 64 * NEARLY

            def saying() -> str:
                return f"{node.describe()}; {chart.printed()}"

            guest.figure("held_s", guest.wait_until(holds, PATIENCE_S, saying, every_s=1))
            second = chart.write()
            guest.wait_until(lambda: chart.gone(first), PATIENCE_S, saying, every_s=1)
            guest.figure("upgraded_s", chart.wait_for_pods("tierwised"))
            assert holds(), saying()
            (daemon,) = node.processes(second, "tierwised")
            subprocess.run(["kill", "-KILL", str(daemon)], check=True)
            guest.wait_until(
                lambda: node.processes(second, "tierwised") not in ([], [daemon]),
                PATIENCE_S,
                saying,
                every_s=1,
            )
            guest.figure("after_kill_s", chart.wait_for_pods("tierwised"))
            chart.remove()
            guest.wait_until(lambda: chart.gone(second), PATIENCE_S, saying, every_s=1)
            assert taken() == settings, (taken(), settings)
        finally:
            keep_logs(node, "installation")
    assert taken()[1:] == before[1:], (taken(), before)


@test(boot="hmat", needs=("tierwised", "tierwise"), timeout_s=4000)
def a_removal_after_a_kill_restores_the_kernel(guest: Guest) -> None:
    """The daemon is killed, and its pod is removed before the kubelet starts it again: the sidecar
    gives back what it has left."""
    with Node(guest) as node:
        chart = Installed(node)
        before = taken()
        try:
            node.start(Pod("web", stairs(32, 20_000)), 32)
            pod = chart.write()
            chart.wait_for_pods("tierwised")
            guest.wait_until(lambda: running() > before[2], PATIENCE_S, chart.printed, every_s=1)
            (daemon,) = node.processes(pod, "tierwised")
            # A kubelet that hangs starts nothing.
            assert node.kubelet
            node.kubelet.signal(signal.SIGSTOP)
            subprocess.run(["kill", "-KILL", str(daemon)], check=True)
            guest.wait_until(lambda: not node.processes(pod, "tierwised"), 60, "it runs")
            assert running() > before[2], "nothing was left to give back"
            chart.remove()
            node.kubelet.signal(signal.SIGCONT)
            guest.wait_until(lambda: chart.gone(pod), PATIENCE_S, chart.printed, every_s=1)
            guest.figure("state", str(_state_files()))
            assert taken() == before, (taken(), before, chart.printed())
        finally:
            keep_logs(node, "removal")


@test(boot="hmat", needs=("tierwised", "tierwise"), timeout_s=4000)
def a_daemon_beside_the_leaving_one_waits(guest: Guest) -> None:
    """A pod of the daemon starts while another still runs: it refuses to share, and takes over
    after the other has left."""
    with Node(guest) as node:
        chart = Installed(node)
        before = taken()
        try:
            node.start(Pod("web", stairs(32, 20_000)), 32)
            old = chart.write("old")
            chart.wait_for_pods("old")
            (daemon,) = node.processes(old, "tierwised")
            new = chart.write("new")
            refusal = "another tierwised listens there"
            guest.wait_until(lambda: refusal in chart.printed(), PATIENCE_S, chart.printed, 1)
            assert node.processes(old, "tierwised") == [daemon], chart.printed()
            chart.remove("old")
            guest.wait_until(lambda: chart.gone(old), PATIENCE_S, chart.printed, every_s=1)
            guest.figure("taken_over_s", chart.wait_for_pods("new"))
            chart.remove("new")
            guest.wait_until(lambda: chart.gone(new), PATIENCE_S, chart.printed, every_s=1)
            assert taken() == before, (taken(), before)
        finally:
            keep_logs(node, "beside")
