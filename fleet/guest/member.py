"""A node whose kubelet has joined an API server, and commands for the control plane.

The control plane is on the host (fleet/plane.py).
"""

import http.client
import json
from pathlib import Path
from typing import Any

from kube import PATIENCE_S, Node, Pod
from tierguest import Guest
from tierguest.files import write

# As fleet/plane.py and lab/tierlab/network.py have them.
API = "https://10.0.2.97:443"
COMMANDS = "10.0.2.98"
ADDRESS = "10.0.2.15"
TOKEN = "kubelet-token"
NODE = "lab"

KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "test", "cluster": {"server": API, "insecure-skip-tls-verify": True}}],
    "users": [{"name": "user", "user": {"token": TOKEN}}],
    "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user"}}],
    "current-context": "test",
}

# The host's own time for a command of kubectl is a second; helm may wait for its hooks.
COMMAND_S = 300


def command(program: str, *words: str, given: object = None) -> tuple[int, str]:
    """Has the host run kubectl, or helm on the chart. Returns its status and what it printed."""
    connection = http.client.HTTPConnection(COMMANDS, 80, timeout=COMMAND_S)
    try:
        connection.request("POST", f"/{program}", json.dumps({"words": words, "given": given}))
        answer = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    return answer["status"], answer["printed"]


def kubectl(*words: str, given: object = None) -> str:
    """Runs kubectl, and returns what it printed; fails if it fails."""
    status, printed = command("kubectl", *words, given=given)
    assert status == 0, f"kubectl {' '.join(words)}: {printed}"
    return printed


def helm(*words: str) -> None:
    """Runs helm on the chart; fails if it fails."""
    status, printed = command("helm", *words)
    assert status == 0, f"helm {' '.join(words)}: {printed}"


def found(*words: str) -> dict[str, Any]:
    """Returns what `kubectl get` finds; nothing if there is none."""
    status, printed = command("kubectl", "get", *words, "--output", "json")
    return json.loads(printed) if status == 0 else {}


class Member(Node):
    """A node of a cluster. Its pods are those of the namespace `shop` that the test created."""

    def __init__(self, guest: Guest) -> None:
        super().__init__(guest, settings={"staticPodPath": "", "fileCheckFrequency": "20s"})
        self.kubeconfig = guest.directory / "kubelet.kubeconfig"

    def __enter__(self) -> "Member":
        if not Path("/sys/class/net/eth0").exists():
            self.guest.run("modprobe", "virtio_net")
            self.guest.run("ip", "address", "add", f"{ADDRESS}/24", "dev", "eth0")
        self.guest.run("ip", "link", "set", "eth0", "up")
        # Addresses of pods are not translated: the node answers for them on the network.
        write("/proc/sys/net/ipv4/conf/eth0/proxy_arp", 1)
        self.kubeconfig.write_text(json.dumps(KUBECONFIG))
        kubectl("create", "namespace", "shop")
        super().__enter__()
        self.wait("the node is ready", self.ready)
        self.wait("an account", lambda: bool(found("serviceaccount", "default", "-n", "shop")))
        return self

    def kubelet_words(self) -> list[str]:
        return [f"--kubeconfig={self.kubeconfig}", f"--node-ip={ADDRESS}"]

    def ready(self) -> bool:
        """Returns true if the API server holds the node for ready."""
        conditions = found("node", NODE).get("status", {}).get("conditions", [])
        return any(row["type"] == "Ready" and row["status"] == "True" for row in conditions)

    def wait(self, what: str, condition: Any) -> float:
        """Waits until something holds in the cluster. Returns the seconds that it took."""
        return self.guest.wait_until(
            condition, PATIENCE_S, lambda: f"{what}; {self.describe()}; {events()}", every_s=1
        )

    def tenant(self, pod: str) -> str:
        return f"shop/{pod}"

    def add(self, pod: Pod) -> Pod:
        """Creates a pod in the API server, which gives it its number."""
        made = kubectl("create", "--filename=-", "--output=json", given=pod.manifest())
        pod.uid = json.loads(made)["metadata"]["uid"]
        self.pods[pod.name] = pod
        return pod

    def forget(self, name: str) -> None:
        """Deletes a pod, without waiting for its end."""
        self.pods.pop(name, None)
        kubectl("delete", "pod", name, "--namespace=shop", "--wait=false", "--ignore-not-found")

    def forget_all(self) -> None:
        for name in list(self.pods):
            self.forget(name)
        command("helm", "uninstall")

    def describe(self) -> str:
        return f"{super().describe()}; {said()}"


def said() -> str:
    """Returns what pods that do not run say of themselves."""
    rows = []
    for pod in found("pods", "--all-namespaces").get("items", []):
        states = pod["status"].get("containerStatuses", []) or pod["status"].get("conditions", [])
        if pod["status"].get("phase") != "Running":
            rows.append(f"{pod['metadata']['name']}: {pod['status'].get('phase')} {states}"[:400])
    return "; ".join(rows)


def events() -> str:
    """Returns the last warnings of the cluster."""
    listed = found("events", "--all-namespaces", "--field-selector=type=Warning").get("items", [])
    return "; ".join(
        f"{row['involvedObject']['name']}: {row['message'][:300]}" for row in listed[-4:]
    )
