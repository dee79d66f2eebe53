"""Hundreds of nodes and thousands of pods: the scheduler places claims within every node.

kwok plays the nodes. Their slices are copies of the one that the driver publishes for a recorded
machine.
"""

import copy
import time
import unittest
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fleet.claims import DRIVER, VALUES, ClaimTest, node, pod, template
from fleet.machine import wait_for

NODES = 300
PODS = 2000

# Each node has 16 GiB of fast memory. The pods' claims, in turn: on average 2.75 GiB, so that the
# pods ask for 5500 GiB of the cluster's 4800.
FAST = 16 << 10
AMOUNTS = (1024, 2048, 3072, 4864)

# Clients of the API server. It has two CPUs at most here.
CLIENTS = 8


class PlacementTest(ClaimTest):
    """A cluster whose pods ask for more fast memory than it has."""

    def fleet(self) -> None:
        """Makes the nodes, and a slice for each from that of the driver."""
        self.install(VALUES)
        self.request("POST", "/api/v1/nodes", node("n1"))
        daemon, driving = self.daemon(), self.driver()
        wait_for("the slice", lambda: len(self.slices()) == 1, driving, daemon)
        original = self.slices()[0]
        driving.end()
        words = ["delete", "validatingadmissionpolicybinding", "t-slices.tierwise.io"]
        self.assertIn("deleted", self.kubectl(*words))
        self.request("DELETE", f"/apis/resource.k8s.io/v1/resourceslices/{self.name(original)}")
        self.request("DELETE", "/api/v1/nodes/n1")
        names = [f"fast-{number}" for number in range(NODES)]
        self.posted("/api/v1/nodes", [node(name) for name in names])
        slices = [self.slice_of(original, name) for name in names]
        # The policy is forgotten a moment after its binding.
        path = "/apis/resource.k8s.io/v1/resourceslices"
        wait_for("the policy's end", lambda: "spec" in self.request("POST", path, slices[0]))
        self.posted(path, slices[1:])

    def name(self, found: dict[str, Any]) -> str:
        """Returns the name of an object."""
        return str(found["metadata"]["name"])

    def slice_of(self, original: dict[str, Any], name: str) -> dict[str, Any]:
        """Returns the driver's slice for another node, with another capacity."""
        spec = copy.deepcopy(original["spec"])
        spec["nodeName"] = spec["pool"]["name"] = name
        spec["devices"][0]["capacity"]["memory"]["value"] = f"{FAST}Mi"
        kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}
        return {**kind, "metadata": {"name": f"{name}-slice"}, "spec": spec}

    def posted(self, path: str, objects: list[dict[str, Any]]) -> None:
        """Creates objects."""
        with ThreadPoolExecutor(CLIENTS) as clients:
            answers = list(clients.map(lambda given: self.request("POST", path, given), objects))
        refused = [answer for answer in answers if answer.get("kind") == "Status"]
        self.assertEqual(refused, [])

    def listed(self, path: str) -> list[dict[str, Any]]:
        """Returns all objects of a resource."""
        found: list[dict[str, Any]] = self.request("GET", path)["items"]
        return found

    def condition(self, found: dict[str, Any]) -> str:
        """Returns why the scheduler has not placed a pod; nothing if it has, or has not tried."""
        conditions = found["status"].get("conditions", [])
        return "".join(c.get("message", "") for c in conditions if c["type"] == "PodScheduled")

    def tried(self) -> bool:
        """True if the scheduler has placed each pod, or said why not."""
        pods = self.listed("/api/v1/namespaces/default/pods")
        return all("nodeName" in found["spec"] or self.condition(found) for found in pods)

    def taken(self) -> Counter[str]:
        """Returns the fast memory of each node that claims take, in MiB."""
        taken: Counter[str] = Counter()
        for claim in self.listed("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"):
            allocation = claim.get("status", {}).get("allocation", {})
            for result in allocation.get("devices", {}).get("results", []):
                self.assertEqual((result["driver"], result["device"]), (DRIVER, "fast"))
                taken[result["pool"]] += mebibytes(result["consumedCapacity"]["memory"])
        return taken

    def test_no_node_is_beyond_its_capacity(self) -> None:
        """Claims fill the nodes and no more, and the other pods stay pending with a reason."""
        self.fleet()
        for amount in AMOUNTS:
            self.kubectl("create", "-f", "-", given=template(f"of-{amount}", f"{amount}Mi"))
        parts = [self.kwok(), self.controller_manager(), self.scheduler()]
        started = time.monotonic()
        asked = [AMOUNTS[number % len(AMOUNTS)] for number in range(PODS)]
        pods = [pod(f"p{i}", f"of-{amount}", "8Gi") for i, amount in enumerate(asked)]
        self.posted("/api/v1/namespaces/default/pods", pods)
        created = time.monotonic() - started
        wait_for("the scheduler", self.tried, *parts, patience=1800)
        took = time.monotonic() - started
        found = self.listed("/api/v1/namespaces/default/pods")
        placed = [one for one in found if "nodeName" in one["spec"]]
        pending = [one for one in found if "nodeName" not in one["spec"]]
        taken = self.taken()
        print(
            f"{NODES} nodes of {FAST} MiB, {PODS} pods that ask for {sum(asked)} MiB: created in "
            f"{created:.0f} s, all tried in {took:.0f} s; {len(placed)} placed "
            f"({len(placed) / took:.0f} a second), {len(pending)} pending; the fullest node has "
            f"{max(taken.values())} MiB claimed, all together {sum(taken.values())} MiB"
        )
        self.assertLessEqual(max(taken.values()), FAST)
        self.assertGreater(sum(taken.values()), NODES * FAST * 0.9)
        sizes = {f"p{i}": amount for i, amount in enumerate(asked)}
        self.assertEqual(sum(sizes[self.name(one)] for one in placed), sum(taken.values()))
        # A smaller claim that still fits some node must not wait.
        room = FAST - min(taken[f"fast-{number}"] for number in range(NODES))
        for one in pending:
            self.assertIn("cannot allocate all claims", self.condition(one))
            self.assertGreater(sizes[self.name(one)], room)
        wait_for("the pods", lambda: self.running() == len(placed), *parts, patience=600)

    def running(self) -> int:
        """Returns how many pods kwok runs."""
        pods = self.listed("/api/v1/namespaces/default/pods")
        return sum(one["status"]["phase"] == "Running" for one in pods)


def mebibytes(quantity: str) -> int:
    """Returns a quantity of whole MiB or GiB as a number."""
    number, unit = int(quantity[:-2]), quantity[-2:]
    return number * {"Mi": 1, "Gi": 1 << 10}[unit]


if __name__ == "__main__":
    unittest.main()
