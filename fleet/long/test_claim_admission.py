"""What the policies of the chart's driver refuse: claims, claimants, slices and nodes' statuses."""

import copy
import unittest
from typing import Any

from fleet.claims import ACCOUNT, DRIVER, VALUES, ClaimTest, node, pod, request, template
from fleet.machine import wait_for

SLICES = "/apis/resource.k8s.io/v1/resourceslices"

# Requests of a template, and the reason of the refusal; nothing if it is admitted.
REQUESTS: list[tuple[dict[str, Any], str]] = [
    ({"exactly": request("2Gi")}, ""),
    ({"exactly": request("2Gi", count=2)}, ""),
    ({"firstAvailable": [{"name": "a", **request("64Gi")}, {"name": "b", **request("1Gi")}]}, ""),
    ({"exactly": {"deviceClassName": "gpu.example.org"}}, ""),
    ({"exactly": request(None)}, "lacks capacity.requests.memory"),
    ({"firstAvailable": [{"name": "a", **request(None)}]}, "lacks capacity.requests.memory"),
    ({"exactly": request("65Gi")}, "is above 64Gi, the largest claim"),
    ({"exactly": request("33Gi", count=2)}, "is above 64Gi, the largest claim"),
    ({"firstAvailable": [{"name": "a", **request("65Gi")}]}, "is above 64Gi, the largest claim"),
]


def slice_of(name: str, of: str = DRIVER) -> dict[str, Any]:
    """Returns a slice for a node, of a driver."""
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{name}-slice"},
        "spec": {"driver": of, "nodeName": name, "pool": pool, "devices": []},
    }


class ClaimAdmissionTest(ClaimTest):
    """The chart with its driver in an API server."""

    def test_claims_are_checked_before_the_scheduler(self) -> None:
        """A claim says how much, up to the largest, and its pod requests as much memory."""
        self.install(VALUES)
        wrong = template("x", None)
        wait_for("the policies", lambda: "lacks capacity" in self.refusal(wrong), self.server)
        for made, reason in REQUESTS:
            given = template("x", "1Gi")
            given["spec"] = {"spec": {"devices": {"requests": [{"name": "fast", **made}]}}}
            direct = {**given, "kind": "ResourceClaim", "spec": {"devices": {}}}
            direct["spec"] = {"devices": {"requests": [{"name": "fast", **made}]}}
            for wanted in (given, direct):
                with self.subTest(kind=wanted["kind"], made=made):
                    found = self.refusal(wanted)
                    self.assertIn(reason, found) if reason else self.assertEqual(found, "")

    def test_pod_requests_what_it_claims(self) -> None:
        """A claim above the memory request of its pod is refused with both numbers."""
        self.install(VALUES)
        two = template("two", "1Gi", count=2)
        for given in (template("one", "1Gi"), two, template("other", "64Gi")):
            self.assertIn("created", self.kubectl("create", "-f", "-", given=given))
        large = pod("a", "one", "512Mi")
        wait_for("the policy", lambda: "found a claim of" in self.refusal(large), self.server)
        self.assertIn(
            "ResourceClaimTemplate one: found a claim of 1073741824 B of fast memory; allowed: at "
            "most the memory request of the pod, 536870912 B",
            self.refusal(large),
        )
        self.assertEqual(self.refusal(pod("a", "one", "1Gi")), "")
        self.assertIn("found a claim of 2147483648 B", self.refusal(pod("a", "two", "1Gi")))
        self.assertEqual(self.refusal(pod("a", "two", "2Gi")), "")
        whole = pod("a", "two", "1Gi", resources={"requests": {"memory": "4Gi"}})
        self.assertEqual(self.refusal(whole), "", "a request of the pod as a whole")
        self.assertEqual(self.refusal(pod("a", None, "1Mi")), "")
        self.assertEqual(self.refusal(pod("a", "missing", "1Mi")), "", "nothing is known of it")

    def test_slices_are_the_drivers_own(self) -> None:
        """No other user says what a node has, and no node what another has."""
        self.install(VALUES)
        for name in ("n1", "n2"):
            self.request("POST", "/api/v1/nodes", node(name))
        own = self.account("n1")
        other = slice_of("n1")
        wait_for("the policy", lambda: "found the user" in self.refusal(other), self.server)
        account = f"system:serviceaccount:tierwise:{ACCOUNT}"
        self.assertIn(f"found the user admin; allowed: {account}", self.made(slice_of("n1")))
        self.assertIn('for node "n2"; allowed:', self.made(slice_of("n2"), own))
        other = slice_of("n1", "gpu.example.org")
        self.assertIn("of gpu.example.org for node", self.made(other, own))
        free = self.kubectl("create", "token", ACCOUNT, "--namespace", "tierwise").strip()
        self.assertIn("the token names no node", self.made(slice_of("n1"), free))
        self.assertEqual(self.made(slice_of("n3", "gpu.example.org")), "", "another driver's")
        self.assertEqual(self.made(slice_of("n1"), own), "")
        # Nor may it delete another's.
        self.assertEqual(self.made(slice_of("n2"), self.account("n2")), "")
        found = self.request("DELETE", f"{SLICES}/n2-slice", token=own)
        self.assertIn('for node "n2"; allowed:', found["message"])
        found = self.request("DELETE", f"{SLICES}/n1-slice", token=own)
        self.assertEqual(found.get("status", "Success"), "Success")
        # The kubelet and the garbage collector may.
        self.assertEqual(self.request("DELETE", f"{SLICES}/n2-slice").get("code"), None)

    def made(self, given: dict[str, Any], token: str = "admin-token") -> str:
        """Creates an object, and returns the reason of a refusal; nothing if there is none."""
        return str(self.request("POST", SLICES, given, token).get("message", ""))


class ExtendedResourceTest(ClaimTest):
    """The driver where claims of capacity are not there."""

    def setUp(self) -> None:
        super().setUp()
        driving = copy.deepcopy(VALUES)
        driving["dra"]["mode"] = "extended-resource"  # type: ignore[index]
        self.install({**driving, "classes": [{"name": "default", "maxFloor": "8Gi"}]})
        for name in ("n1", "n2"):
            self.request("POST", "/api/v1/nodes", node(name))

    def amount(self) -> str:
        """Returns the resource in the node's status."""
        found = self.request("GET", "/api/v1/nodes/n1")["status"]
        key = "tierwise.io/fast-memory"
        self.assertEqual(found["capacity"].get(key), found["allocatable"].get(key))
        return str(found["capacity"].get(key, ""))

    def test_node_has_the_resource_while_the_driver_runs(self) -> None:
        """The driver writes the daemon's amount into its node's status, and takes it back."""
        daemon, driving = self.daemon(), self.driver("-mode", "extended-resource")
        wait_for("the resource", lambda: self.amount() != "", daemon, driving)
        capacity = int(str(self.pods()["capacity_bytes"]))
        self.assertEqual(self.amount(), str(capacity >> 20))
        driving.end()
        self.assertEqual((self.amount(), driving.process.returncode), ("", 0), driving.output())

    def test_driver_changes_nothing_else(self) -> None:
        """The driver's account writes one resource, of its own node."""
        own = self.account("n1")
        patch = {"status": {"capacity": {"tierwise.io/fast-memory": "8"}}}
        wait_for("the policy", lambda: "n2" in self.patched("n2", patch, own), self.server)
        found = self.patched("n2", patch, own)
        self.assertIn('found node "n2"; allowed: the node of the token', found)
        self.assertEqual(self.patched("n1", patch, own), "")
        for more in (
            {"capacity": {"memory": "1Gi"}},
            {"allocatable": {"example.org/gpu": "8"}},
            {"capacity": {"cpu": None}},
            {"conditions": [{"type": "Ready", "status": "False"}]},
        ):
            with self.subTest(more=more):
                found = self.patched("n1", {"status": more}, own)
                self.assertIn("found another change of the node's status", found)

    def patched(self, name: str, patch: dict[str, Any], token: str) -> str:
        """Patches a node's status, and returns the reason of a refusal."""
        kind = "application/strategic-merge-patch+json"
        found = self.request("PATCH", f"/api/v1/nodes/{name}/status", patch, token, kind)
        return str(found.get("message", ""))

    def test_annotated_floor_needs_its_request(self) -> None:
        """A pod requests in MiB what it annotates, so that the scheduler knows it."""
        wanted = pod("a", None, "8Gi")
        wanted["metadata"]["annotations"] = {"tierwise.io/floor": "2Gi"}
        wait_for("the policy", lambda: "found floors of" in self.refusal(wanted), self.server)
        self.assertIn(
            "found floors of 2147483648 B; allowed: at most the pod's request of "
            "tierwise.io/fast-memory, 0 MiB",
            self.refusal(wanted),
        )
        resources = wanted["spec"]["containers"][0]["resources"]
        resources["limits"] = {"tierwise.io/fast-memory": "2048"}
        self.assertEqual(self.refusal(wanted), "")
        wanted["metadata"]["annotations"]["floor.tierwise.io/main"] = "1Mi"
        self.assertIn("found floors of 2148532224 B", self.refusal(wanted))


if __name__ == "__main__":
    unittest.main()
