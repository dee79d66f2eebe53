"""The daemon beside containerd's own NRI package, which reports pods that come and go.

No container runs: fleet/runtime makes the calls that containerd's CRI service makes.
"""

import signal
import time
import unittest

from fleet.churn import LIVE, Runtime
from fleet.machine import FleetTest, wait_for
from fleet.parts import Program


class ChurnTest(FleetTest):
    """Pods by the thousand."""

    def tenants(self) -> set[str]:
        """Returns the names of the daemon's tenants."""
        rows = self.view().get("tenants")
        return {row["name"] for row in rows} if isinstance(rows, list) else set()

    def agree(self, last: int, *programs: Program) -> None:
        """Waits until the daemon's tenants are the pods that run: the last ones."""
        running = {f"shop/web-{number}" for number in range(last - LIVE + 1, last + 1)}
        wait_for("the tenants", lambda: self.tenants() == running, *programs)

    def test_a_thousand_pods_come_and_go(self) -> None:
        """Every pod starts, and the tenants are those that run."""
        runtime = Runtime(self)
        daemon = self.daemon()
        wait_for("the plugin", lambda: runtime.plugins() == 1, runtime.program, daemon)
        done = runtime.ask("churn 1000")
        self.assertEqual((done["failed"], done["running"]), (0, LIVE))
        self.agree(1000, runtime.program, daemon)
        self.assertEqual(self.pods()["refused"], 0)

    def test_pods_start_while_the_daemon_hangs(self) -> None:
        """Every pod starts beside a daemon that hangs, and its tenants are right afterwards."""
        runtime = Runtime(self)
        daemon = self.daemon()
        wait_for("the plugin", lambda: runtime.plugins() == 1, runtime.program, daemon)
        self.assertEqual(runtime.ask("churn 200")["failed"], 0)
        daemon.signal(signal.SIGSTOP)
        self.assertEqual(runtime.ask("churn 200")["failed"], 0)
        daemon.signal(signal.SIGCONT)
        wait_for("the plugin", lambda: runtime.plugins() == 2, runtime.program, daemon)
        self.agree(400, runtime.program, daemon)

    def test_pods_start_while_the_daemon_is_killed(self) -> None:
        """Every pod starts while the daemon is killed and started, and its tenants are right."""
        runtime = Runtime(self, "-pause", "2ms")
        daemon = self.daemon()
        wait_for("the plugin", lambda: runtime.plugins() == 1, runtime.program, daemon)
        runtime.send("churn 1000")
        time.sleep(0.5)
        daemon.signal(signal.SIGKILL)
        daemon.process.wait()
        daemon = self.daemon()
        self.assertEqual(runtime.receive()["failed"], 0)
        wait_for("the plugin", lambda: runtime.plugins() == 2, runtime.program, daemon)
        self.agree(1000, runtime.program, daemon)


if __name__ == "__main__":
    unittest.main()
