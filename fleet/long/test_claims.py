"""A claim's way: template, scheduler, driver, daemon; and what restarts leave of it.

The API server, the scheduler, the controller, the driver and the daemon are real. In the place of
the kubelet is fleet/kubelet, and in that of the container runtime fleet/runtime.
"""

import signal
import unittest
from typing import Any

from fleet.churn import Runtime
from fleet.claims import DRIVER, MIB, VALUES, ClaimTest, Kubelet, node, pod, template
from fleet.machine import wait_for
from fleet.parts import Program

CLAIMED = 64 * MIB


class ClaimsTest(ClaimTest):
    """One node, and pods that claim its fast memory."""

    def setUp(self) -> None:
        super().setUp()
        self.install(VALUES)
        self.request("POST", "/api/v1/nodes", node("n1"))
        self.started = self.daemon()
        self.runner = self.runtime(self.started)
        self.driving = self.driver()
        wait_for("the slice", lambda: len(self.slices()) == 1, self.driving, self.started)

    def capacity(self) -> int:
        """Returns the fast memory that the daemon has to give."""
        return int(str(self.pods()["capacity_bytes"]))

    def placed(self, name: str, amount: str) -> dict[str, Any]:
        """Creates a pod with a claim, and returns the claim once the scheduler has allocated it."""
        self.kubectl("create", "-f", "-", given=template(f"of-{name}", amount))
        self.kubectl("create", "-f", "-", given=pod(name, f"of-{name}"))
        wait_for(f"the allocation of {name}", lambda: "allocation" in self.status(name))
        return self.claim(name)

    def status(self, name: str) -> dict[str, Any]:
        """Returns the status of a pod's claim."""
        found: dict[str, Any] = self.claim(name).get("status", {})
        return found

    def start(self, claim: dict[str, Any]) -> None:
        """Reports the claim's pod to the daemon, as the runtime does."""
        user = claim["status"]["reservedFor"][0]
        answer = self.runner.ask(f"start default {user['name']} {user['uid']}")
        self.assertEqual(answer["started"], 1)

    def words(self, claim: dict[str, Any]) -> str:
        """Returns the claim as the kubelet names it."""
        of = claim["metadata"]
        return f"{of['namespace']} {of['name']} {of['uid']}"

    def test_floor_follows_the_claim(self) -> None:
        """Prepared, the claim is the pod's floor, whatever is restarted; unprepared, it is none."""
        parts = [self.scheduler(), self.controller_manager()]
        found = self.slices()[0]["spec"]
        device = found["devices"][0]
        self.assertEqual((found["nodeName"], device["name"]), ("n1", "fast"))
        whole = self.capacity() // (2 * MIB) * 2
        self.assertEqual(device["capacity"]["memory"]["value"], f"{whole}Mi")
        claim = self.placed("web", "64Mi")
        kubelet = Kubelet(self)
        self.assertEqual(kubelet.ask("register"), {"driver": DRIVER})
        answer = kubelet.ask(f"prepare {self.words(claim)}")
        self.assertEqual(answer, {"devices": ["n1/fast"]})
        # Again, as a kubelet does that was restarted.
        self.assertEqual(kubelet.ask(f"prepare {self.words(claim)}"), answer)
        self.start(claim)
        held = lambda: self.floor("default/web") == CLAIMED  # noqa: E731
        wait_for("the floor", held, *parts, self.started, self.driving)
        self.assertEqual((self.pods()["claims"], self.pods()["claimed_bytes"]), (1, CLAIMED))
        self.restart_daemon()
        wait_for("the floor after a restart of the daemon", held, self.started, self.driving)
        self.driving.signal(signal.SIGKILL)
        self.driving.process.wait()
        self.restart_daemon()
        wait_for("the pods", lambda: self.pods().get("pods") == 1, self.started)
        self.assertIsNone(self.floor("default/web"), "no driver has sent its claim")
        self.driving = self.driver()
        wait_for("the floor after a restart of the driver", held, self.started, self.driving)
        kubelet = Kubelet(self)
        kubelet.ask("register")
        # The claim's object may be gone by then.
        self.assertEqual(kubelet.ask(f"unprepare {self.words(claim)}"), {})
        self.assertEqual(kubelet.ask(f"unprepare {self.words(claim)}"), {})
        wait_for("the end of the floor", lambda: self.floor("default/web") is None, self.started)
        self.assertEqual(self.pods()["claims"], 0)

    def restart_daemon(self) -> None:
        """Kills the daemon and starts another."""
        self.started.signal(signal.SIGKILL)
        self.started.process.wait()
        self.started = self.daemon()

    def test_pod_starts_while_the_daemon_hangs(self) -> None:
        """A daemon that does not answer holds no claim up, and has the floor afterwards."""
        self.scheduler()
        self.controller_manager()
        claim = self.placed("web", "64Mi")
        kubelet = Kubelet(self)
        kubelet.ask("register")
        self.started.signal(signal.SIGSTOP)
        self.assertEqual(kubelet.ask(f"prepare {self.words(claim)}"), {"devices": ["n1/fast"]})
        self.started.signal(signal.SIGCONT)
        self.runner = self.again(self.runner)
        self.start(claim)
        wait_for("the floor", lambda: self.floor("default/web") == CLAIMED, self.started)

    def again(self, runtime: Runtime) -> Runtime:
        """Waits until the daemon has connected to the runtime, which forgets one that hangs."""
        wait_for("the list of pods", self.in_step, runtime.program, self.started)
        return runtime

    def test_pods_beyond_the_node_stay_pending(self) -> None:
        """The scheduler places claims up to the node's capacity, and says why no more."""
        parts: list[Program] = [self.scheduler(), self.controller_manager()]
        # More than a third, so that two fit.
        third = self.capacity() // MIB // 3 + 4
        self.kubectl("create", "-f", "-", given=template("third", f"{third}Mi"))
        for name in ("a", "b", "c"):
            self.kubectl("create", "-f", "-", given=pod(name, "third"))
        condition = "{.items[*].status.conditions[?(@.type=='PodScheduled')].message}"
        words = ["get", "pods", "--output", f"jsonpath={condition}"]
        wait_for(
            "the refusal", lambda: "cannot allocate all claims" in self.kubectl(*words), *parts
        )
        nodes = self.kubectl("get", "pods", "--output", "jsonpath={.items[*].spec.nodeName}")
        self.assertEqual(nodes.split(), ["n1", "n1"])


if __name__ == "__main__":
    unittest.main()
