"""Control groups of a test. Its end removes them and the processes in them."""

import os
import signal
from pathlib import Path

from .files import node_table, read, table, write
from .wait import wait_until

ROOT = Path("/sys/fs/cgroup")


class Cgroup:
    """A cgroup v2 below the root, with the memory controller. Use with `with`, or through
    Guest.cgroup."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.path = ROOT / name

    def __enter__(self) -> "Cgroup":
        write(ROOT / "cgroup.subtree_control", "+memory +cpu")
        self.path.mkdir(parents=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def add(self, pid: int) -> None:
        """Moves a process into the group."""
        write(self.path / "cgroup.procs", pid)

    def processes(self) -> list[int]:
        """Returns the process ids of the members."""
        return [int(pid) for pid in read(self.path / "cgroup.procs").split()]

    def on_nodes(self, kind: str = "anon") -> list[int]:
        """Returns the bytes of a kind of memory (anon, file, ...) on nodes 0, 1, ...
        (memory.numa_stat)."""
        return node_table(self.path / "memory.numa_stat")[kind]

    def stat(self) -> dict[str, int]:
        """Returns memory.stat."""
        return table(self.path / "memory.stat")

    def reclaim(self, size: int | str) -> None:
        """Requests that the kernel reclaims this much; reclaiming less (EAGAIN) is not an error
        here."""
        try:
            write(self.path / "memory.reclaim", size)
        except BlockingIOError:
            pass

    def remove(self) -> None:
        """Ends the members and removes the group, if it is still there."""
        if not self.path.exists():
            return
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        wait_until(
            lambda: not self.processes(),
            10,
            lambda: f"{self.path} still has processes {self.processes()}",
        )
        self.path.rmdir()
