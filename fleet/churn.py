"""fleet/runtime, by its standard input and output."""

import json
from pathlib import Path

from fleet.machine import FleetTest
from fleet.parts import own

# The pods that run at a time: what a node of Kubernetes allows by default.
LIVE = 110

# The control group of the recorded machine in which the processes of every pod are.
GROUP = "kubepods-burstable-pod7d1f.slice:cri-containerd:0a"


class Runtime:
    """The NRI side of a container runtime: containerd's own package, without containers."""

    def __init__(self, test: FleetTest, *flags: str) -> None:
        command: list[str | Path] = [own("runtime"), "-socket", test.nri, *flags]
        command += ["-live", str(LIVE), "-group", GROUP]
        self.program = test.program("runtime", command, talks=True)

    def ask(self, command: str) -> dict[str, object]:
        """Sends a command and returns its answer."""
        self.send(command)
        return self.receive()

    def send(self, command: str) -> None:
        """Sends a command."""
        stdin = self.program.process.stdin
        assert stdin is not None
        stdin.write(f"{command}\n".encode())
        stdin.flush()

    def receive(self) -> dict[str, object]:
        """Waits for the answer of the oldest command."""
        stdout = self.program.process.stdout
        assert stdout is not None
        line = stdout.readline()
        if not line:
            self.program.process.wait()
            self.program.alive()
        found: dict[str, object] = json.loads(line)
        return found

    def plugins(self) -> int:
        """Returns how often a plugin was synchronized."""
        return int(str(self.ask("plugins")["plugins"]))
