"""Claims of fast memory, the driver that serves them, and the daemon that holds their floors."""

import json
from pathlib import Path
from typing import Any

from fleet.chart import DIGEST
from fleet.churn import Runtime
from fleet.cluster import NAMESPACE, ClusterTest
from fleet.machine import FleetTest, wait_for
from fleet.parts import Program, driver, own

DRIVER = "fast-memory.tierwise.io"

# The chart with its driver.
VALUES: dict[str, object] = {
    "dra": {"enabled": True, "maxClaim": "64Gi", "image": {"digest": DIGEST}},
}

# The account of the driver's pods, of the release "t".
ACCOUNT = "t-dra"

MIB = 1 << 20


def request(amount: str | None, **more: object) -> dict[str, object]:
    """Returns one request for this much fast memory."""
    wanted: dict[str, object] = {"deviceClassName": DRIVER, **more}
    if amount is not None:
        wanted["capacity"] = {"requests": {"memory": amount}}
    return wanted


def template(name: str, amount: str | None, **more: object) -> dict[str, object]:
    """Returns a ResourceClaimTemplate of this much fast memory."""
    requests = [{"name": "fast", "exactly": request(amount, **more)}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": requests}}},
    }


def pod(name: str, claim: str | None, memory: str = "16Gi", **spec: object) -> dict[str, Any]:
    """Returns a pod that makes a claim from a template."""
    claims = [{"name": "fast", "resourceClaimTemplateName": claim}] if claim else []
    resources: dict[str, object] = {"requests": {"memory": memory, "cpu": "10m"}}
    if claims:
        resources["claims"] = [{"name": "fast"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "containers": [{"name": "main", "image": "none", "resources": resources}],
            "resourceClaims": claims,
            "automountServiceAccountToken": False,
            **spec,
        },
    }


def node(name: str, memory: str = "512Gi") -> dict[str, object]:
    """Returns a node that kwok may play."""
    amounts = {"cpu": "64", "memory": memory, "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


class Kubelet:
    """fleet/kubelet, by its standard input and output."""

    def __init__(self, test: "ClaimTest") -> None:
        command: list[str | Path] = [own("kubelet"), "-registry", test.kubelet / "plugins_registry"]
        self.program = test.program("kubelet", command, talks=True)

    def ask(self, command: str) -> dict[str, Any]:
        """Sends a command and returns its answer."""
        stdin, stdout = self.program.process.stdin, self.program.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{command}\n".encode())
        stdin.flush()
        line = stdout.readline()
        if not line:
            self.program.process.wait()
            self.program.alive()
        found: dict[str, Any] = json.loads(line)
        return found


class ClaimTest(FleetTest, ClusterTest):
    """A recorded machine with the daemon and the driver, as the node n1 of a cluster."""

    def setUp(self) -> None:
        super().setUp()
        self.kubelet = self.directory / "kubelet"
        (self.kubelet / "plugins_registry").mkdir(parents=True)
        self.drivers = 0

    def account(self, name: str) -> str:
        """Returns the token of a pod of the chart's driver on a node, which has its own account."""
        on = pod(f"dra-{name}", None, nodeName=name, serviceAccountName=ACCOUNT)
        on["metadata"]["namespace"] = NAMESPACE
        self.request("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", on)
        words = ["create", "token", ACCOUNT, "--namespace", NAMESPACE, "--bound-object-kind=Pod"]
        token = self.kubectl(*words, f"--bound-object-name=dra-{name}").strip()
        self.assertEqual(token.count("."), 2, token)
        return token

    def driver(self, *flags: str) -> Program:
        """Starts the driver, with what its container has: the token of its pod."""
        self.drivers += 1
        config = self.kubeconfig("driver", self.account("n1"))
        command: list[str | Path] = [driver(), "-node", "n1", "-kubeconfig", config]
        command += ["-socket", self.directory / "claims/claims.sock", "-kubelet", self.kubelet]
        return self.program(f"driver-{self.drivers}", [*command, "-interval", "500ms", *flags])

    def slices(self) -> list[dict[str, Any]]:
        """Returns the slices of the driver that the API server has."""
        found = self.request("GET", "/apis/resource.k8s.io/v1/resourceslices")
        return [item for item in found["items"] if item["spec"]["driver"] == DRIVER]

    def floor(self, name: str) -> int | None:
        """Returns the floor of a tenant in the fastest tier, in bytes."""
        rows = self.view().get("tenants")
        tiers = [row["tiers"] for row in rows if row["name"] == name] if rows else []
        found: int | None = tiers[0][0]["floor_bytes"] if tiers else None
        return found

    def claim(self, name: str) -> dict[str, Any]:
        """Returns the claim that was made for a pod; nothing if there is none yet."""
        found = self.request("GET", f"/api/v1/namespaces/default/pods/{name}")
        made = found.get("status", {}).get("resourceClaimStatuses", [])
        if not made:
            return {}
        path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/"
        return self.request("GET", path + made[0]["resourceClaimName"])

    def runtime(self, daemon: Program) -> Runtime:
        """Starts what reports pods to the daemon."""
        runtime = Runtime(self)
        wait_for("the plugin", lambda: runtime.plugins() == 1, runtime.program, daemon)
        return runtime
