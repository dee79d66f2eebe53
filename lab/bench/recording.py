"""On the host: records the programs that the guests run, for the simulator."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tierlab.command import run
from tierlab.errors import LabError
from tierlab.mode import LLC_BYTES, LLC_WAYS
from tierlab.paths import Paths, tested_program

from .programs import SOCKET, Program

# A hundredth of a guest's second, or little more. The simulator takes a page's misses of a window
# as evenly spread. A request for a value of 4,000 bytes misses 62 times at once, so all values of a
# window are first accessed in a sixtieth of it. After a scan these are hint faults, and in windows
# ten times as long they come in bursts for which kswapd has no time to make room, which a guest
# does not have.
WINDOW_INSTRUCTIONS = 1_000_000
# Time limit for a recorded program to fill its memory, in seconds of the host; it takes some ten.
FILL_S = 600.0
# The time limit of a recording in seconds; for a long program it is multiplied by its factor.
RECORDING_S = 3600.0
POLL_S = 0.02


def _program_words(paths: Paths, words: Sequence[str]) -> list[str]:
    """Returns the command line with the guests' programs: the lab's are static, and the stores come
    from the guests' root with its libraries."""
    if (paths.programs / words[0]).exists():
        return [str(paths.programs / words[0]), *words[1:]]
    libraries = paths.root / "usr/lib/x86_64-linux-gnu"
    return [
        str(libraries / "ld-linux-x86-64.so.2"),
        "--library-path",
        str(libraries),
        str(paths.root / "usr/bin" / words[0]),
        *words[1:],
    ]


class Recording:
    """A program under the recorder, in its own directory; setting `stop` ends it."""

    def __init__(
        self, paths: Paths, program: Program, directory: Path, stop: threading.Event
    ) -> None:
        self.paths, self.program, self.directory, self.stop = paths, program, directory, stop
        self.trace = directory / "all.twt"
        self._marks = directory / "marks"
        self._report = directory / "filled"
        self._process: subprocess.Popen[bytes] | None = None

    def record(self) -> Path:
        """Records the whole program, and returns the trace; its mark "run" is where the memory is
        filled. The simulator needs the part before it too: memory that is freed there has room for
        later memory."""
        words = (
            self.program.words
            if self.program.prints_when_filled
            else (*self.program.words, f"report={self._report}")
        )
        command = [
            tierwise(),
            "record",
            "-o",
            str(self.trace),
            "--force",
            "--window",
            str(WINDOW_INSTRUCTIONS),
            # The daemon's blocks and DAMON's regions are in the order of addresses.
            "--kernel-layout",
            "--llc",
            f"{LLC_BYTES >> 20}MiB/{LLC_WAYS}",
            "--marks",
            str(self._marks),
            "--",
            *_program_words(self.paths, words),
        ]
        with open(self.directory / "said", "wb") as printed:
            self._process = subprocess.Popen(
                command,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                start_new_session=True,
            )
            try:
                self._follow(self._process)
            finally:
                if self._process.poll() is None:
                    # The recorder, QEMU and the program have their own process group.
                    os.killpg(self._process.pid, signal.SIGKILL)
                    self._process.wait()
        return self.trace

    def _follow(self, process: subprocess.Popen[bytes]) -> None:
        self._wait(process, self._marks.is_fifo, FILL_S)
        with open(self._marks, "w", buffering=1, encoding="ascii") as marks:
            self._wait(process, self._filled, FILL_S)
            if self.program.load:
                self._client(self.program.load)
            marks.write("run\n")
            if self.program.work:
                self._client(self.program.work)
                counted = f" operations={self.program.operations}"
                marks.write(f"end{counted if self.program.operations else ''}\n")
                # The work is done. The recorder passes the signal on and writes the trace.
                process.send_signal(signal.SIGTERM)
        self._wait(process, lambda: process.poll() is not None, RECORDING_S * self.program.times)
        if process.returncode != 0 and not self.program.work:
            raise LabError(
                f"record {self.program.name}: status {process.returncode}: {self._printed()}"
            )

    def _filled(self) -> bool:
        if self.program.load:
            return (self.directory / SOCKET).exists()
        return (
            '"build_seconds"' in self._printed()
            if self.program.prints_when_filled
            else self._report.exists()
        )

    def _client(self, words: Sequence[str]) -> None:
        run(f"record {self.program.name}", _program_words(self.paths, words), cwd=self.directory)

    def _wait(
        self, process: subprocess.Popen[bytes], condition: Callable[[], bool], within_s: float
    ) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            if self.stop.is_set():
                raise LabError(f"record {self.program.name}: the lab was interrupted")
            if process.poll() is not None or time.monotonic() > deadline:
                state = (
                    f"ended with status {process.returncode}"
                    if process.poll() is not None
                    else "still runs"
                )
                raise LabError(
                    f"record {self.program.name}: after {within_s:.0f} s at most it {state}: "
                    f"{self._printed()}"
                )
            time.sleep(POLL_S)

    def _printed(self) -> str:
        return (self.directory / "said").read_text(errors="replace")


def tierwise() -> str:
    """Returns the command with the recorder and the simulator."""
    found = tested_program("tierwise")
    if not found:
        raise LabError("the simulator is needed: cargo build --release -p tierwise-cli")
    return str(found)
