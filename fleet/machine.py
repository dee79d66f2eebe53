"""A daemon on a recorded machine, and the directory in which a test's programs run."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
from collections.abc import Callable
from pathlib import Path

from fleet.parts import REPOSITORY, Program, tested

# For a loaded machine. containerd needs less than a second, and the daemon tries to connect again
# after one, two, four and so on.
PATIENCE = 120.0

DAEMON = """\
state = "{directory}/daemon"
[monitor]
source = "idle-bitmap"
[control]
socket = "{directory}/run/control.sock"
[http]
listen = "off"
[kubernetes]
nri = "{directory}/nri.sock"
claims = "{directory}/claims/claims.sock"
"""


def wait_for(
    what: str, found: Callable[[], bool], *programs: Program, patience: float = PATIENCE
) -> None:
    """Waits until something holds, and fails if a program ends meanwhile."""
    deadline = time.monotonic() + patience
    while not found():
        for program in programs:
            program.alive()
        if time.monotonic() > deadline:
            lines = "\n".join(f"{p.name}:\n{p.output()[-3000:]}" for p in programs)
            raise AssertionError(f"{what}: not within {patience:.0f} s\n{lines}")
        time.sleep(0.05)


def free_ports(count: int) -> list[int]:
    """Returns ports of loopback on which no program listens now."""
    sockets = [socket.socket() for _ in range(count)]
    for found in sockets:
        found.bind(("127.0.0.1", 0))
    ports: list[int] = [found.getsockname()[1] for found in sockets]
    for found in sockets:
        found.close()
    return ports


class PlaceTest(unittest.TestCase):
    """A directory, and the programs that run in it."""

    def setUp(self) -> None:
        # A socket's path has at most 107 bytes.
        self.directory = Path(tempfile.mkdtemp(prefix="tierwise-", dir="/tmp"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def write(self, name: str, text: str, **more: object) -> None:
        """Writes a configuration with the test's directory and user, and more values, in it."""
        values = {"directory": self.directory, "uid": os.getuid(), "gid": os.getgid(), **more}
        (self.directory / name).write_text(text.format(**values))

    def program(self, name: str, command: list[str | Path], *, talks: bool = False) -> Program:
        """Starts a program that ends with the test."""
        program = Program(name, command, self.directory / f"{name}.log", talks=talks)
        self.addCleanup(program.end)
        return program


class FleetTest(PlaceTest):
    """A recorded machine and a daemon on it."""

    def setUp(self) -> None:
        super().setUp()
        self.nri = self.directory / "nri.sock"
        machine = REPOSITORY / "tests" / "fixtures" / "linux" / "hmat-two-tier"
        shutil.copytree(machine, self.directory / "machine", symlinks=True)
        bitmap = self.directory / "machine/sys/kernel/mm/page_idle/bitmap"
        bitmap.parent.mkdir(parents=True, exist_ok=True)
        bitmap.touch()
        self.write("daemon.toml", DAEMON)
        self.daemons = 0

    def daemon(self) -> Program:
        """Starts a daemon on the recorded machine."""
        self.daemons += 1
        command: list[str | Path] = [
            tested("tierwised"),
            "--config",
            self.directory / "daemon.toml",
        ]
        command += ["--root", self.directory / "machine"]
        return self.program(f"tierwised-{self.daemons}", command)

    def view(self) -> dict[str, object]:
        """Returns the daemon's view; nothing while it does not answer."""
        socket = self.directory / "run/control.sock"
        command: list[str | Path] = [tested("tierwise"), "status", "--json", "--socket", socket]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found: dict[str, object] = json.loads(done.stdout) if done.stdout else {}
        return found

    def pods(self) -> dict[str, object]:
        """Returns what the daemon's view says of the runtime."""
        found = self.view().get("pods")
        return found if isinstance(found, dict) else {}

    def unavailable(self) -> dict[str, str]:
        """Returns the reasons of the daemon's features that could not start."""
        listed = self.view().get("unavailable")
        rows = listed if isinstance(listed, list) else []
        return {row["feature"]: row["reason"] for row in rows}

    def in_step(self) -> bool:
        """True if the runtime has listed its pods."""
        return self.pods().get("in_step") is True
