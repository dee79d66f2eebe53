"""Programs of a test: in a cgroup from their first instruction, and ended with the test."""

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .cgroup import Cgroup
from .wait import wait_until

# Seconds that a program has to end after SIGTERM before it is killed.
TERM_S = 10
# Characters of a program's output in a message: about a screen.
PRINTED_CHARACTERS = 2000


class Program:
    """A running program; its output goes to a file, so that it never blocks on a reader."""

    def __init__(self, words: Sequence[str], output: Path, cgroup: Cgroup | None = None) -> None:
        self.words = list(words)
        self.output = output
        # The shell joins the group before it executes the program, so that allocations are charged
        # from the start.
        command = (
            ["bash", "-c", 'echo $$ > "$0"; exec "$@"', str(cgroup.path / "cgroup.procs")]
            if cgroup
            else []
        )
        with open(output, "wb") as file:
            self.process = subprocess.Popen(
                [*command, *self.words],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Returns the process id."""
        return self.process.pid

    def running(self) -> bool:
        """Returns true if the program has not ended."""
        return self.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal."""
        self.process.send_signal(number)

    def printed(self) -> str:
        """Returns the program's output so far."""
        return self.output.read_text(errors="replace")

    def json_lines(self) -> list[dict[str, Any]]:
        """Returns the program's output so far, in which each whole line is a JSON object."""
        whole = self.printed().rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def wait(self, within_s: float) -> int:
        """Waits for the program's end, and returns its status."""
        try:
            return self.process.wait(within_s)
        except subprocess.TimeoutExpired as error:
            printed = self.printed()[-PRINTED_CHARACTERS:]
            raise AssertionError(
                f"{self.words[0]} still runs after {within_s:.0f} s; it printed: {printed}"
            ) from error

    def stop(self) -> int:
        """Ends the program by SIGCONT and SIGTERM, then SIGKILL. Returns its status."""
        if self.running():
            self.signal(signal.SIGTERM)
            self.signal(signal.SIGCONT)
            try:
                self.process.wait(TERM_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode


def resident_bytes(pid: int) -> int:
    """Returns the resident set of a process in bytes."""
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def processor_seconds(pid: int, proc: Path = Path("/proc")) -> float:
    """Returns the user and system time that a process has used, in seconds."""
    fields = (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_for_file(path: Path, program: Program, within_s: float) -> None:
    """Waits until a program has written a file; fails at once if it ends before."""

    def there() -> bool:
        if not path.exists() and not program.running():
            raise AssertionError(
                f"{program.words} ended with status {program.process.returncode}: "
                f"{program.printed()}"
            )
        return path.exists()

    wait_until(
        there,
        within_s,
        lambda: f"{path} was not written; {program.words[0]} said: {program.printed()}",
    )
