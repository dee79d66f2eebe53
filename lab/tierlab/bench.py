"""`make lab-bench`: measures policies in timed guests, compares them with the simulator, and prints
both (lab/bench/)."""

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.programs import HOSTS, PROGRAMS, RUNS, STANDARD, Program
from bench.ranking import Comparison, compare
from bench.simulate import Recording, Result, simulate
from bench.table import (
    BOUND,
    COMPARED,
    HEADER,
    Run,
    about,
    aligned,
    first_runs,
    markdown,
    rows,
    side_by_side,
    spread,
)
from bench.table import verdict as verdict_of

from .boots import BOOTS
from .errors import LabError
from .guest import Guest
from .job import Job
from .kernel import SERIES, series
from .paths import LAB, Paths, tested_program

# Seconds of the host for all runs of a program. An idle machine takes six minutes, and a busy one
# several times as long; for a long program the limit is multiplied by its factor.
TIMEOUT_S = 5400.0
# A guest or a recording uses one of the host's CPUs; the lab is designed for machines with two.
AT_ONCE = 2
# A repeated string instruction is a real CPU's fastest copy and emulation's slowest: a nanosecond
# per byte. A guest whose CPU does not have it copies by words, as the recorder's does.
PROCESSOR = ("-cpu", "max,-erms,-fsrm,-fsrs,-fzrm")
# The smallest fast node that holds the kernel and a whole program. Policies keep a share of a node
# free; of a gigabyte that would be as much as a program's part.
NODE_MIB = (384, 512)
# Differences of a thousandth mean nothing in an emulated guest, even if repeated runs differ by
# less.
MIN_TIE = 0.005
NOTE = """\
Emulated guests, a nanosecond per instruction: only ratios within one block mean anything. A guest
has one CPU, so that what the daemon and the kernel's threads do beside the program is part of its
run time; "apart" leaves it out, as the simulator does. Misses are those of all programs while the
program ran, without the kernel's copies of pages. "steady" is their fast share in the last third of
the run, and "after s" the time until the run came within a tenth of it."""


@dataclass
class Block:
    """The results of one program."""

    program: Program
    runs: list[Run] = field(default_factory=list)
    simulated: dict[str, Result] = field(default_factory=dict)

    @property
    def tie(self) -> float:
        """Returns the tie threshold: run times that differ by no more than this share of the
        smaller count as equal."""
        return max(spread(self.runs), MIN_TIE)

    def comparisons(self) -> dict[str, Comparison]:
        """Compares the guest's rankings with the simulator's, which gives tiering its own CPU."""
        simulated = {name: result.slowdown for name, result in self.simulated.items()}
        chosen = [run for run in first_runs(self.runs) if run.policy != BOUND]
        return {
            "live": compare({run.policy: run.seconds for run in chosen}, simulated, self.tie),
            "live, apart": compare(
                {run.policy: run.apart_s for run in chosen}, simulated, self.tie
            ),
        }

    def compared_rows(self) -> list[tuple[str, ...]]:
        """Returns the rows of guest and simulator side by side."""
        return side_by_side(
            self.runs, {name: (r.slowdown, r.fast_share) for name, r in self.simulated.items()}
        )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument(
        "--kernel", default=SERIES[-1].name, help="the kernel series (default: %(default)s)"
    )
    parser.add_argument(
        "--program",
        action="append",
        choices=[program.name for program in PROGRAMS],
        help="only this one; repeatable (default: all but the long ones)",
    )
    parser.add_argument(
        "--policy", action="append", choices=sorted(set(RUNS)), help="only this one; repeatable"
    )
    parser.add_argument(
        "--at-once",
        type=int,
        default=AT_ONCE,
        metavar="N",
        help="guests and recordings (default: %(default)s)",
    )
    parser.add_argument(
        "--host",
        choices=HOSTS,
        default=HOSTS[0],
        help="equal: nothing but the program and a ballast on the fast node; used: an idle process "
        "and idle page cache too (default: %(default)s)",
    )
    parser.add_argument("--reverse", action="store_true", help="run in the reverse order")
    parser.add_argument("--no-simulation", action="store_true", help="measure only")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument(
        "--markdown", action="store_true", help="print tables for docs/performance.md"
    )


def bench(paths: Paths, options: argparse.Namespace) -> int:
    """Runs everything and prints it; returns the exit status."""
    kernel = series(options.kernel).name
    _check()
    chosen = [
        program
        for program in PROGRAMS
        if program in STANDARD and not options.program or program.name in (options.program or ())
    ]
    names = [name for name in RUNS if not options.policy or name in options.policy]
    if options.reverse:
        names.reverse()
    wants_simulation = not options.no_simulation and {BOUND, "first-touch"} <= set(names)
    began = time.monotonic()
    stop = threading.Event()
    with (
        tempfile.TemporaryDirectory(dir=_runs(paths), prefix="bench-") as scratch,
        ThreadPoolExecutor(options.at_once) as pool,
    ):
        measured = [
            pool.submit(_measure, paths, kernel, options.host, program, names, stop)
            for program in chosen
        ]
        recorded = [
            pool.submit(_record, paths, program, Path(scratch), stop)
            for program in chosen
            if wants_simulation
        ]
        try:
            blocks = [future.result() for future in measured]
            _simulate(blocks, recorded)
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    _report(f"{time.monotonic() - began:.0f} s on {kernel}")
    print(_json(blocks) if options.json else _text(blocks, options.markdown))
    return 0


def _check() -> None:
    for name in ("tierwised", "tierwise"):
        if not tested_program(name):
            raise LabError(
                f"bench needs target/release/{name}, which is not there: "
                f"cargo build --release -p {name}"
            )


def _runs(paths: Paths) -> Path:
    paths.runs.mkdir(parents=True, exist_ok=True)
    return paths.runs


def _report(text: str) -> None:
    print(f"lab: {text}", file=sys.stderr, flush=True)


def _measure(
    paths: Paths,
    kernel: str,
    host: str,
    program: Program,
    names: Sequence[str],
    stop: threading.Event,
) -> Block:
    """Does all runs of a program, in one guest."""
    boot = BOOTS["timed"]
    guest = Guest(
        paths, kernel, replace(boot.topology.sized(*NODE_MIB), extra=PROCESSOR), boot.mode
    )
    words = " ".join([kernel, host, program.name, *names])
    command = f"PYTHONPATH=/lab/python exec python3 -m bench {words}"
    block = Block(program)
    failures = []

    def on_event(line: str) -> None:
        reported: dict[str, Any] = json.loads(line)
        if "failed" in reported:
            failures.append(f"{program.name} under {reported['policy']}: {reported['failed']}")
            return
        run = Run.of(reported)
        block.runs.append(run)
        _report(
            f"{program.name}, {run.policy}: {run.seconds:.2f} s, "
            f"{run.fast_share:.1%} of misses fast, "
            f"{run.fast_mib_at_start:.0f} to {run.fast_mib_at_end:.0f} MiB "
            f"({len(block.runs)} of {len(names)})"
        )

    outcome = guest.run(
        Job(command, files={"bench": LAB / "bench"}),
        TIMEOUT_S * program.times,
        on_event,
        stop=stop,
    )
    if failures or outcome.exit_code != 0:
        reason = (
            "; ".join(failures) or outcome.reason or f"{program.name}: status {outcome.exit_code}"
        )
        raise LabError(f"{reason}\nthe end of its console:\n{outcome.console_tail()}")
    _check_results(block)
    return block


def _check_results(block: Block) -> None:
    """Checks that a program's result is the same under every placement of its pages."""
    sums = {run.policy: run.printed["checksum"] for run in block.runs if "checksum" in run.printed}
    if len(set(sums.values())) > 1:
        raise LabError(f"{block.program.name} computed different sums: {sums}")


def _record(paths: Paths, program: Program, scratch: Path, stop: threading.Event) -> Path:
    directory = scratch / program.name
    directory.mkdir()
    trace = Recording(paths, program, directory, stop).record()
    _report(f"{program.name}: recorded")
    return trace


def _simulate(blocks: Sequence[Block], recorded: "Sequence[Future[Path]]") -> None:
    latency_ns = BOOTS["timed"].topology.latency_ns
    for block, trace in zip(blocks, recorded, strict=False):
        by_name = {run.policy: run for run in first_runs(block.runs)}
        block.simulated = simulate(
            block.program, trace.result(), by_name[BOUND], by_name["first-touch"], latency_ns
        )
        _report(f"{block.program.name}: simulated")


def _text(blocks: Sequence[Block], as_markdown: bool) -> str:
    draw = markdown if as_markdown else aligned
    parts = []
    for block in blocks:
        parts += [about(block.program, block.runs), draw(HEADER, rows(block.runs))]
        if block.simulated:
            parts.append(draw(COMPARED, block.compared_rows()))
            for name, comparison in block.comparisons().items():
                parts.append(f"{name}: {verdict_of(comparison, block.tie)}")
    return "\n\n".join([*parts, NOTE])


def _run_json(run: Run) -> dict[str, Any]:
    return {
        **asdict(run),
        "fast_share": run.fast_share,
        "fast_mib_at_end": run.fast_mib_at_end,
        "steady_share": run.steady_share,
        "steady_after_s": run.steady_after_s,
    }


def _json(blocks: Sequence[Block]) -> str:
    printed = []
    for block in blocks:
        one: dict[str, Any] = {
            "program": block.program.name,
            "about": block.program.about,
            "tie": block.tie,
            "runs": [_run_json(run) for run in block.runs],
        }
        if block.simulated:
            one["simulated"] = {name: asdict(result) for name, result in block.simulated.items()}
            one["comparisons"] = {
                name: asdict(comparison) for name, comparison in block.comparisons().items()
            }
        printed.append(one)
    return json.dumps(printed, indent=2)
