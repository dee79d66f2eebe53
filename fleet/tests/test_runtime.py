"""The daemon beside a real containerd that runs no container.

Every file, socket and port of containerd is its own, it needs no privilege, and the daemon has a
recorded machine in the place of this one: neither changes anything here.
"""

import signal
import subprocess
import unittest
from pathlib import Path

from fleet.machine import FleetTest, wait_for
from fleet.parts import Program, debian

CONTAINERD = """\
version = 2
root = "{directory}/root"
state = "{directory}/state"
# Their first act is to try a mount.
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.blockfile",
  "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.overlayfs", "io.containerd.snapshotter.v1.zfs",
]
[grpc]
  address = "{directory}/c.sock"
  uid = {uid}
  gid = {gid}
[ttrpc]
  address = "{directory}/t.sock"
  uid = {uid}
  gid = {gid}
[plugins."io.containerd.internal.v1.opt"]
  path = "{directory}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  disable_apparmor = true
  disable_cgroup = true
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "native"
[plugins."io.containerd.grpc.v1.cri".cni]
  conf_dir = "{directory}/cni"
  bin_dir = "{directory}/cni"
[plugins."io.containerd.nri.v1.nri"]
  disable = false
  socket_path = "{directory}/nri.sock"
  plugin_path = "{directory}/plugins"
  plugin_config_path = "{directory}/plugins"
"""


class RuntimeTest(FleetTest):
    """One daemon and containerds one after the other."""

    def setUp(self) -> None:
        super().setUp()
        self.write("containerd.toml", CONTAINERD)

    def containerd(self, number: int) -> Program:
        """Starts containerd, and waits for its NRI socket."""
        self.nri.unlink(missing_ok=True)
        command: list[str | Path] = [
            debian("containerd"),
            "--config",
            self.directory / "containerd.toml",
        ]
        program = self.program(f"containerd-{number}", command)
        wait_for("containerd", self.nri.is_socket, program)
        return program

    def answers(self) -> bool:
        """True if containerd answers its clients."""
        ctr = debian("containerd").with_name("ctr")
        command: list[str | Path] = [ctr, "--address", self.directory / "c.sock"]
        command += ["--timeout", "30s", "version"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def test_daemon_follows_a_killed_containerd(self) -> None:
        """The daemon registers with containerd, learns its pods, and finds its successor."""
        first = self.containerd(1)
        daemon = self.daemon()
        wait_for("the list of pods", self.in_step, first, daemon)
        self.assertRegex(str(self.pods()["runtime"]), r"^containerd \d+\.\d+")
        self.assertEqual((self.pods()["pods"], self.pods()["refused"]), (0, 0))
        first.signal(signal.SIGKILL)
        wait_for("the end of containerd", lambda: not self.in_step(), daemon)
        self.assertEqual(self.pods()["runtime"], "")
        second = self.containerd(2)
        wait_for("the list of the second", self.in_step, second, daemon)
        self.assertNotIn("nri", self.unavailable())
        daemon.end()
        self.assertEqual(daemon.process.returncode, 0, daemon.output())
        second.alive()

    def test_daemon_starts_without_a_runtime(self) -> None:
        """A missing runtime costs the daemon its pods alone, and it connects when there is one."""
        daemon = self.daemon()
        wait_for("the view", lambda: "in_step" in self.pods(), daemon)
        self.assertEqual((self.pods()["in_step"], self.pods()["runtime"]), (False, ""))
        self.assertIn("cannot connect; is NRI switched on", self.unavailable()["nri"])
        runtime = self.containerd(1)
        wait_for("the list of pods", self.in_step, runtime, daemon)

    def test_successor_of_a_killed_daemon_registers(self) -> None:
        """containerd forgets a daemon that was killed, and takes its successor."""
        runtime = self.containerd(1)
        first = self.daemon()
        wait_for("the list of pods", self.in_step, runtime, first)
        first.signal(signal.SIGKILL)
        first.process.wait()
        self.assertTrue(self.answers(), runtime.output())
        second = self.daemon()
        wait_for("the list of pods", self.in_step, runtime, second)

    def test_hanging_daemon_holds_nothing_up(self) -> None:
        """containerd answers and starts while the daemon hangs, which then connects again."""
        first = self.containerd(1)
        daemon = self.daemon()
        wait_for("the list of pods", self.in_step, first, daemon)
        daemon.signal(signal.SIGSTOP)
        self.assertTrue(self.answers(), first.output())
        first.end()
        self.assertEqual(first.process.returncode, 0, first.output())
        second = self.containerd(2)
        self.assertTrue(self.answers(), second.output())
        daemon.signal(signal.SIGCONT)
        # The view of before may be shown until the daemon has run again.
        wait_for("a second connection", lambda: self.connections(second) == 1, second, daemon)
        wait_for("the list of the second", self.in_step, second, daemon)

    def test_hanging_containerd_costs_pods_alone(self) -> None:
        """The daemon starts and answers while containerd hangs, and then learns its pods."""
        runtime = self.containerd(1)
        runtime.signal(signal.SIGSTOP)
        daemon = self.daemon()
        wait_for("the reason", lambda: "nri" in self.unavailable(), daemon)
        self.assertIn("does not answer the registration", self.unavailable()["nri"])
        self.assertEqual(self.pods()["in_step"], False)
        runtime.signal(signal.SIGCONT)
        wait_for("the list of pods", self.in_step, runtime, daemon)

    def connections(self, runtime: Program) -> int:
        """Returns how often containerd has taken the daemon as a plugin."""
        lines = runtime.output().splitlines()
        return sum("95-tierwise" in line and "connected" in line for line in lines)


if __name__ == "__main__":
    unittest.main()
