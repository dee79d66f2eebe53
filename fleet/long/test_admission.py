"""The chart in a real API server: what it admits, and what it refuses with which reason.

No kubelet and no scheduler run, so pods stay pending.
"""

import unittest

from fleet.cluster import ClusterTest
from fleet.machine import wait_for

VALUES: dict[str, object] = {
    "classes": [
        {"name": "default", "maxFloor": "1Gi", "maxWeight": 200},
        {"name": "gold", "floor": "4Gi", "maxFloor": "8Gi", "weight": 400, "minP99Ms": 2},
    ],
}

# Annotations of a pod with the containers web and db, whose limits are 3 GiB together, and the
# reason of the refusal; nothing if it is admitted.
PODS: list[tuple[dict[str, str], str]] = [
    ({}, ""),
    ({"example.org/floor": "much"}, ""),
    ({"tierwise.io/floor": "1Gi", "tierwise.io/cap": "2Gi"}, ""),
    ({"tierwise.io/class": "gold", "tierwise.io/floor": "3Gi"}, ""),
    ({"tierwise.io/p99": "500us", "tierwise.io/latency": "redis:6379"}, ""),
    ({"latency.tierwise.io/web": "prometheus:9100/metrics#http_seconds"}, ""),
    ({"class.tierwise.io/db": "gold", "floor.tierwise.io/db": "2Gi"}, ""),
    ({"tierwise.io/floors": "1Gi"}, "no such annotation: tierwise.io/floors; allowed: class"),
    ({"floor.tierwise.io/cache": "1Gi"}, "no such container: floor.tierwise.io/cache; allowed"),
    ({"tierwise.io/class": "platinum"}, "no such class; allowed: default, gold"),
    ({"tierwise.io/floor": "4GiB"}, "allowed is a quantity of memory up to 1024Ti"),
    ({"tierwise.io/cap": "-1"}, "allowed is a quantity of memory up to 1024Ti"),
    ({"tierwise.io/cap": "1025Ti"}, "allowed is a quantity of memory up to 1024Ti"),
    ({"weight.tierwise.io/web": "0"}, "weight: allowed is 1 to 10000"),
    ({"tierwise.io/weight": "99999"}, "weight: allowed is 1 to 10000"),
    ({"tierwise.io/p99": "5"}, "p99: allowed is a time from 50us to 3600s"),
    ({"tierwise.io/p99": "10us"}, "p99: allowed is a time from 50us to 3600s"),
    ({"tierwise.io/latency": "ftp:21"}, "latency: allowed is redis:PORT"),
    (
        {"floor.tierwise.io/web": "600Mi", "cap.tierwise.io/web": "500Mi"},
        "a floor is above its cap; allowed is at most the cap",
    ),
    (
        {"tierwise.io/class": "gold", "tierwise.io/floor": "4Gi"},
        "tierwise.io/floor is above the memory limit of the pod's containers",
    ),
    ({"tierwise.io/floor": "1025Mi"}, "a floor is above 1Gi, the maxFloor of class default"),
    ({"floor.tierwise.io/web": "2Gi"}, "a floor is above 1Gi, the maxFloor of class default"),
    ({"tierwise.io/weight": "201"}, "a weight is above 200, the maxWeight of class default"),
    (
        {"tierwise.io/class": "gold", "p99.tierwise.io/db": "1ms"},
        "a p99 is below 2.000ms, the minP99 of class gold",
    ),
    ({"class.tierwise.io/db": "gold", "tierwise.io/floor": "2Gi"}, "a floor is above 1Gi"),
]

# Specifications of a FastMemoryClass, and the reason of the refusal.
CLASSES: list[tuple[dict[str, object], str]] = [
    ({}, ""),
    ({"floor": "1Gi", "cap": "1024Mi", "weight": 10000, "p99": "1.5ms", "minP99": "500us"}, ""),
    ({"floor": "2Gi", "cap": "1Gi"}, "the floor is above the cap; allowed is at most the cap"),
    ({"floor": "2Gi", "maxFloor": "1Gi"}, "the floor is above maxFloor"),
    ({"weight": 300, "maxWeight": 200}, "the weight is above maxWeight"),
    ({"p99": "1ms", "minP99": "2ms"}, "p99 is below minP99; allowed is at least minP99"),
    ({"weight": 0}, "should be greater than or equal to 1"),
    ({"floor": "4GiB"}, "spec.floor"),
    ({"p99": "20us"}, "allowed is a time from 50us to 3600s"),
]


class AdmissionTest(ClusterTest):
    """One API server, with the chart in it."""

    def pod(self, annotations: dict[str, str]) -> dict[str, object]:
        """Returns a pod with two containers and these annotations."""
        limits = {"web": "1Gi", "db": "2Gi"}
        containers = [
            {"name": name, "image": "none", "resources": {"limits": {"memory": limit}}}
            for name, limit in limits.items()
        ]
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "a", "annotations": annotations},
            "spec": {"containers": containers, "automountServiceAccountToken": False},
        }

    def test_server_admits_and_refuses_as_documented(self) -> None:
        """Each annotation and each class that is wrong is refused with its reason."""
        for_class = {"apiVersion": "tierwise.io/v1alpha1", "kind": "FastMemoryClass"}
        self.install(VALUES)
        applied = self.kubectl("apply", "-f", str(self.directory / "rendered.yaml"))
        self.assertNotIn("rror", applied)
        # The policies hold a moment after they are created.
        first = self.pod({"tierwise.io/weight": "201"})
        wait_for("the policies", lambda: "maxWeight of class default" in self.refusal(first))
        for annotations, reason in PODS:
            with self.subTest(annotations=annotations):
                found = self.refusal(self.pod(annotations))
                self.assertIn(reason, found) if reason else self.assertEqual(found, "")
        for spec, reason in CLASSES:
            with self.subTest(spec=spec):
                found = self.refusal({**for_class, "metadata": {"name": "x"}, "spec": spec})
                self.assertIn(reason, found) if reason else self.assertEqual(found, "")

    def test_running_pod_keeps_what_it_has(self) -> None:
        """A pod that was there before the policies can still be changed in other respects."""
        wrong = self.pod({"tierwise.io/weight": "99999"})
        self.assertIn("created", self.kubectl("create", "-f", "-", given=wrong))
        self.install(VALUES)
        new = self.pod({"tierwise.io/weight": "0"})
        wait_for("the policies", lambda: "allowed is 1 to 10000" in self.refusal(new))
        self.assertIn("labeled", self.kubectl("label", "pod", "a", "app=shop"))
        changed = self.kubectl("annotate", "--overwrite", "pod", "a", "tierwise.io/weight=0")
        self.assertIn("weight: allowed is 1 to 10000", changed)


if __name__ == "__main__":
    unittest.main()
