"""On the host: records the programs that the guests run, and simulates the policies on them.

The simulated machine is the guest: it has the guest's latencies, the size of the fast node that the
program found, the daemon's blocks, and the cost of a page's move whose copy has one miss after the
other. One figure is fitted to the guests' runs, from the run with fast memory only: the time beside
the program's misses.
"""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tierlab.command import run
from tierlab.errors import LabError
from tierlab.mode import LLC_BYTES, LLC_WAYS
from tierlab.paths import REPOSITORY, Paths, tested_program

from .programs import SOCKET, Program
from .simulated import SIMULATED, Simulated
from .table import Run

PAGE_BYTES = 4096
LINES_OF_PAGE = 64
MIB = 1 << 20
# A fifth of a guest's second, or less, which is shorter than a policy's interval.
WINDOW_INSTRUCTIONS = 10_000_000
# A bandwidth that no program reaches, because a guest does not model bandwidth.
UNLIMITED_GBPS = 100_000
# Time limit for a recorded program to fill its memory, in seconds of the host; it takes some ten.
FILL_S = 600.0
# The time limit of a recording in seconds; for a long program it is multiplied by its factor.
RECORDING_S = 3600.0
POLL_S = 0.02
# Kernel work for a page's move, without its copy. The daemon moved 28,544 pages in 0.81 s of a
# guest's CPU time, 28 us per page, of which 20 are the copy's misses.
MIGRATE_PAGE_NS = 8000


@dataclass(frozen=True)
class Result:
    """The simulator's result for one policy."""

    slowdown: float
    fast_share: float


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
        """Records the whole program, and returns the trace of the part after its memory was
        filled."""
        words = (
            self.program.words
            if self.program.prints_when_filled
            else (*self.program.words, f"report={self._report}")
        )
        command = [
            _tierwise(),
            "record",
            "-o",
            str(self.trace),
            "--force",
            "--window",
            str(WINDOW_INSTRUCTIONS),
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
        part = self.directory / "run.twt"
        run(
            "record",
            [_tierwise(), "trace", "cut", str(self.trace), str(part), "--phase", "run", "--force"],
        )
        return part

    def _follow(self, process: subprocess.Popen[bytes]) -> None:
        self._wait(process, self._marks.is_fifo, FILL_S)
        with open(self._marks, "w", buffering=1, encoding="ascii") as marks:
            self._wait(process, self._filled, FILL_S)
            if self.program.load:
                self._client(self.program.load)
            marks.write("run\n")
            if self.program.work:
                self._client(self.program.work)
                marks.write("end\n")
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


def _tierwise() -> str:
    found = tested_program("tierwise")
    if not found:
        raise LabError("the simulator is needed: cargo build --release -p tierwise-cli")
    return str(found)


def scenario(
    program: Program,
    trace: Path,
    fast_bytes: int,
    resident_bytes: int,
    instruction_ns: float,
    granule_bytes: int,
    latency_ns: Sequence[int],
) -> str:
    """Returns the guest as a scenario. Granules are one page for the kernel's policies, and a block
    for the daemon's."""
    copy = PAGE_BYTES / (LINES_OF_PAGE * sum(latency_ns))
    return f"""\
name = "{program.name}"
summary = "{program.about}"

[machine]
instruction_ns = {instruction_ns:.4f}
granule = "{granule_bytes}B"

[costs]
migrate_page_ns = {MIGRATE_PAGE_NS}
copy_bytes_per_ns = {copy:.4f}

[[machine.tier]]
name = "fast"
capacity = "{_whole(fast_bytes, granule_bytes)}B"
load_ns = {latency_ns[0]}
read_gbps = {UNLIMITED_GBPS}

[[machine.tier]]
name = "slow"
capacity = "{_whole(2 * resident_bytes, granule_bytes)}B"
load_ns = {latency_ns[1]}
read_gbps = {UNLIMITED_GBPS}

[[workload]]
name = "{program.name}"
trace = "{trace.name}"
{f'footprint = "{resident_bytes}B"' if granule_bytes > PAGE_BYTES else ""}
"""


def _whole(size: int, granule: int) -> int:
    return max(size // granule, 1) * granule


def instruction_ns(trace: dict[str, Any], bound: Run, fast_ns: int) -> float:
    """Returns the nanoseconds per recorded instruction beside misses, in the run whose misses are
    all on the fast node."""
    beside = bound.seconds * 1e9 - trace["misses"] * fast_ns
    return max(float(beside / trace["instructions"]), 0.1)


def simulate(
    program: Program, trace: Path, bound: Run, limited: Run, latency_ns: Sequence[int]
) -> dict[str, Result]:
    """Returns the simulator's results for every policy, by its name in the guests."""
    info = json.loads(run("simulate", [_tierwise(), "trace", "info", str(trace), "--json"]))[0]
    beside = instruction_ns(info, bound, latency_ns[0])
    results: dict[str, Result] = {}
    for granule, policies in _by_granule(program):
        text = scenario(
            program,
            trace,
            int(limited.fast_mib_at_start * MIB),
            info["peak_resident_bytes"],
            beside,
            granule,
            latency_ns,
        )
        file = trace.with_name(f"{program.name}-{granule}.toml")
        file.write_text(text)
        results |= _compare(file, policies)
    return results


def _by_granule(program: Program) -> list[tuple[int, list[Simulated]]]:
    by_page = [policy for policy in SIMULATED if policy.by_page]
    by_block = [policy for policy in SIMULATED if not policy.by_page]
    return [(PAGE_BYTES, by_page), (program.granule_kib << 10, by_block)]


def _compare(scenario_file: Path, policies: Sequence[Simulated]) -> dict[str, Result]:
    words = [_tierwise(), "compare", str(scenario_file), "--json"]
    shipped = [policy.recipe for policy in policies if not policy.text]
    words += ["--policies", ",".join(shipped)]
    for policy in policies:
        if policy.text:
            recipe = scenario_file.with_name(f"{policy.recipe}.toml")
            recipe.write_text(policy.text)
            words += ["--recipe", str(recipe)]
    printed = json.loads(_quiet(words))
    found = {
        row["policy"]: Result(row["slowdown"], row["fast_access_ratio"])
        for row in printed["results"]
    }
    return {policy.name: found[policy.recipe] for policy in policies}


def _quiet(words: Sequence[str]) -> str:
    """Runs a command, and returns its output without progress messages."""
    done = subprocess.run(words, capture_output=True, text=True, cwd=REPOSITORY, check=False)
    if done.returncode != 0:
        raise LabError(f"simulate: `{' '.join(words)}`: status {done.returncode}: {done.stderr}")
    return done.stdout
