"""What the SLO bench sees of a run while it lasts: the tenants' fast memory and work over time, and
the services' latencies, which it passes on to the daemon."""

import json
import socket
import struct
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tierguest.cgroup import Cgroup
from tierguest.program import Program
from tierguest.truth import Truth

from .course import EVERY_S, node_mib
from .kdamonds import Kdamonds

MIB = 1 << 20
# The daemon writes a snapshot within this time even where services leave it little of the CPU.
PATIENCE_S = 10.0


class MixWatch:
    """Follows a run inside a `with` block."""

    def __init__(
        self,
        groups: Mapping[str, Cgroup],
        progress: Mapping[str, Path],
        clients: Mapping[str, Program],
        truth: Truth,
        kdamonds: Kdamonds,
    ) -> None:
        self._groups, self._progress, self._clients = groups, progress, clients
        self._truth, self._kdamonds = truth, kdamonds
        self._began = time.monotonic()
        self._before = truth.user_misses()
        self._points: list[dict[str, Any]] = []
        self._read = dict.fromkeys(clients, 0)
        self._control: Path | None = None
        self._spy: Path | None = None
        self._problem: Exception | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._follow)

    def report_to(self, control: Path, spy: Path | None) -> None:
        """Reports the services' latencies to this socket of a daemon from now on, and writes the
        daemon's views to the file `spy`."""
        self._control, self._spy = control, spy

    def __enter__(self) -> "MixWatch":
        self._points.append(self._point())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        if self._problem:
            raise self._problem

    def points(self) -> list[dict[str, Any]]:
        """Returns the recorded points, in order."""
        return self._points

    def _follow(self) -> None:
        try:
            while not self._done.wait(EVERY_S):
                self._kdamonds.sample()
                # Read without a daemon too, so that it takes the same time under every policy.
                seconds = self._new_seconds()
                if self._control and self._control.exists():
                    self._report(self._control, seconds)
                self._points.append(self._point())
        except Exception as problem:
            self._problem = problem

    def _new_seconds(self) -> list[dict[str, Any]]:
        """Returns the latencies that services have measured since the last call."""
        return [
            {
                "command": "latency",
                "tenant": name,
                "p99_ms": line["p99_us"] / 1e3,
                "operations": line["requests"],
            }
            for name, client in self._clients.items()
            for line in self._new_lines(name, client)
            if line["phase"] == "second" and line["requests"] > 0
        ]

    def _new_lines(self, name: str, client: Program) -> list[dict[str, Any]]:
        with open(client.output, "rb") as file:
            file.seek(self._read[name])
            whole, end, _ = file.read().rpartition(b"\n")
        self._read[name] += len(whole) + len(end)
        return [json.loads(line) for line in whole.splitlines()]

    def _report(self, control: Path, seconds: list[dict[str, Any]]) -> None:
        for one in seconds:
            _asked(control, one)
        if self._spy and (seconds or not self._clients):
            view = _asked(control, {"command": "snapshot"})
            with open(self._spy, "a", encoding="utf-8") as file:
                at = time.monotonic() - self._began
                print(json.dumps({"at": at, **view}), file=file)

    def _point(self) -> dict[str, Any]:
        misses = self._truth.user_misses()
        return {
            "seconds": time.monotonic() - self._began,
            "fast_mib": {name: group.on_nodes()[0] / MIB for name, group in self._groups.items()},
            "free_mib": node_mib()["MemFree"],
            "user_misses": [now - then for now, then in zip(misses, self._before)],
            "work": {name: _counted(file) for name, file in self._progress.items()},
        }


def _counted(progress: Path) -> int:
    (done,) = struct.unpack_from("<Q", progress.read_bytes())
    return int(done)


def _asked(control: Path, command: Mapping[str, Any]) -> dict[str, Any]:
    """Sends a line to the daemon, and returns its answer."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE_S)
        connection.connect(str(control))
        connection.sendall(json.dumps(command).encode() + b"\n")
        with connection.makefile() as answers:
            answer: dict[str, Any] = json.loads(answers.readline())
    assert answer["ok"], f"the daemon refused {command}: {answer}"
    return answer
