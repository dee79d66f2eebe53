"""`make lab-bench`: measures policies in timed guests, and lets `tierwise validate` compare the
simulator with them (lab/bench/)."""

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bench import picture
from bench.gains import gains, mean_ratio
from bench.programs import (
    HOSTS,
    NEED_MEMTIERD,
    ON_REQUEST,
    PROGRAMS,
    RUNS,
    STANDARD,
    Program,
)
from bench.recording import Recording, tierwise
from bench.table import BOUND, HEADER, Run, about, aligned, markdown, rows, spread

from .boots import BOOTS
from .command import run
from .errors import LabError
from .guest import Guest
from .job import Job
from .kernel import SERIES, series
from .paths import BENCH_FILES, Paths, tested_program

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
# The part of a run from which on its idle time is reported with it: that would pass for a tie.
IDLE_PART = MIN_TIE
# What a record has of a run beside its measurements.
COMPUTED = ("fast_share", "fast_mib_at_end", "steady_share", "steady_after_s")
NOTE = """\
Emulated guests, a nanosecond per instruction: only ratios within one block mean anything. A guest
has one CPU, so that what the daemon and the kernel's threads do beside the program is part of its
run time; "apart" leaves it out. In "idle s" nothing ran, and a guest's time passes much faster than
while a program runs: one that waits for a busy host's disk seems slow. Misses are those of all
programs while the program ran, without the kernel's copies of pages. "steady" is their fast share
in the last third of the run, and "after s" the time until the run came within a tenth of it."""


@dataclass
class Block:
    """The results of one program."""

    program: Program
    kernel: str
    runs: list[Run] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def tie(self) -> float:
        """Returns the tie threshold: run times that differ by no more than this share of the
        smaller count as equal."""
        return max(spread(self.runs), MIN_TIE)


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
    parser.add_argument(
        "--runs",
        type=runs,
        default=RUNS,
        metavar="POLICY,...",
        help=f"the runs in this order, several of one policy if wanted (default: {','.join(RUNS)})",
    )
    parser.add_argument(
        "--memtierd",
        type=Path,
        metavar="FILE",
        help="the program memtierd, which the lab does not have; without it its policies are left "
        "out",
    )
    parser.add_argument(
        "--no-simulation", action="store_true", help="measure only, and record no program"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="write the record (--json) to this file too"
    )
    parser.add_argument(
        "--logs",
        type=Path,
        metavar="DIRECTORY",
        help="write the daemon's debug log of each run there; writing it takes the guest's time",
    )
    parser.add_argument(
        "--read",
        type=Path,
        action="append",
        metavar="FILE",
        help="print one table of all programs of these records, and run nothing; repeatable",
    )
    parser.add_argument(
        "--picture",
        type=Path,
        metavar="FILE",
        help="with --read, draw it as SVG too (needs matplotlib)",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument(
        "--markdown", action="store_true", help="print tables for docs/performance.md"
    )


def runs(text: str) -> list[str]:
    """Returns the policies of a list with commas. Raises ArgumentTypeError for an unknown one."""
    found = text.split(",")
    if unknown := [name for name in found if name not in (*RUNS, *ON_REQUEST)]:
        known = ", ".join(dict.fromkeys((*RUNS, *ON_REQUEST)))
        raise argparse.ArgumentTypeError(f"no policy is named {unknown[0]!r}; there are {known}")
    return found


def bench(paths: Paths, options: argparse.Namespace) -> int:
    """Runs everything and prints it. Returns the exit status: 1 if a run failed, which the other
    runs do not wait for."""
    if options.read:
        records = _read(options.read)
        print(_gains(records, options.markdown))
        if options.picture:
            _draw(records, options.picture)
        return 0
    kernel = series(options.kernel).name
    _check()
    chosen = [
        program
        for program in PROGRAMS
        if program in STANDARD and not options.program or program.name in (options.program or ())
    ]
    names = _names(options)
    wants_simulation = not options.no_simulation and BOUND in names
    began = time.monotonic()
    stop = threading.Event()
    with ThreadPoolExecutor(options.at_once) as pool:
        measured = [
            pool.submit(_measure, paths, kernel, options, program, names, stop)
            for program in chosen
        ]
        recorded = [
            pool.submit(record_program, paths, program, stop)
            for program in chosen
            if wants_simulation
        ]
        blocks: list[Block] = []
        try:
            for future in measured:
                blocks.append(future.result())
                if options.keep:
                    write_whole(options.keep, _json(blocks))
            for recording in recorded:
                recording.result()
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    _report(f"{time.monotonic() - began:.0f} s on {kernel}")
    failures = [failure for block in blocks for failure in block.failures]
    for failure in failures:
        _report(failure)
    record = _json(blocks)
    if options.json:
        print(record)
        return int(bool(failures))
    print(_text(blocks, options.markdown))
    if wants_simulation:
        print("\n" + _validate(paths, record, options.markdown))
    return int(bool(failures))


def _names(options: argparse.Namespace) -> list[str]:
    """Returns the policies of the runs, in their order."""
    left_out = () if options.memtierd else NEED_MEMTIERD
    wanted = options.policy or [name for name in options.runs if name not in left_out]
    names = [name for name in options.runs if name in wanted]
    if missing := [name for name in names if name in left_out]:
        raise LabError(f"{missing[0]} needs --memtierd FILE, its program")
    return names[::-1] if options.reverse else names


def record_programs(paths: Paths, names: Sequence[str]) -> None:
    """Records programs, for `tierwise validate`; all standard ones if none is named."""
    chosen = [
        program
        for program in PROGRAMS
        if program in STANDARD and not names or program.name in names
    ]
    for program in chosen:
        record_program(paths, program, threading.Event())


def record_program(paths: Paths, program: Program, stop: threading.Event) -> Path:
    """Records a program, and returns the recording. It replaces an earlier one when it is
    complete."""
    paths.recordings.mkdir(parents=True, exist_ok=True)
    recording = paths.recordings / f"{program.name}.twt"
    with tempfile.TemporaryDirectory(dir=paths.recordings, prefix="part-") as scratch:
        os.replace(Recording(paths, program, Path(scratch), stop).record(), recording)
    _report(f"{program.name}: recorded, {recording}")
    return recording


def _validate(paths: Paths, record: str, as_markdown: bool) -> str:
    """Returns what `tierwise validate` prints about a record."""
    with tempfile.TemporaryDirectory(dir=_runs(paths), prefix="bench-") as scratch:
        file = Path(scratch) / "record.json"
        file.write_text(record)
        form = ["--markdown"] if as_markdown else []
        words = [tierwise(), "validate", str(file), "--traces", str(paths.recordings), *form]
        return run("validate", words)


def write_whole(file: Path, text: str) -> None:
    """Writes a file beside its place and renames it, so that it is never half-written."""
    beside = file.with_name(f"{file.name}.tmp")
    beside.write_text(text)
    os.replace(beside, file)


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
    options: argparse.Namespace,
    program: Program,
    names: Sequence[str],
    stop: threading.Event,
) -> Block:
    """Does all runs of a program, in one guest. What failed is in the block too."""
    boot = BOOTS["timed"]
    guest = Guest(
        paths, kernel, replace(boot.topology.sized(*NODE_MIB), extra=PROCESSOR), boot.mode
    )
    words = " ".join([kernel, options.host, program.name, *names])
    level = "TIERWISE_LOG=debug BENCH_LOGS=/results " if options.logs else ""
    command = f"{level}PYTHONPATH=/lab/python exec python3 -m bench {words}"
    memtierd = {"memtierd": options.memtierd} if options.memtierd else {}
    block = Block(program, kernel)

    def on_event(line: str) -> None:
        reported: dict[str, Any] = json.loads(line)
        if "failed" in reported:
            failure = f"{program.name} under {reported['policy']}: {reported['failed']}"
            block.failures.append(failure)
            return
        run = Run.of(reported)
        block.runs.append(run)
        idle = f" ({run.idle_s:.2f} s idle)" if run.idle_s > IDLE_PART * run.seconds else ""
        _report(
            f"{program.name}, {run.policy}: {run.seconds:.2f} s{idle}, "
            f"{run.fast_share:.1%} of misses fast, "
            f"{run.fast_mib_at_start:.0f} to {run.fast_mib_at_end:.0f} MiB "
            f"({len(block.runs)} of {len(names)})"
        )

    outcome = guest.run(
        Job(command, files={**BENCH_FILES, **memtierd}),
        TIMEOUT_S * program.times * max(1.0, len(names) / len(RUNS)),
        on_event,
        results=options.logs,
        stop=stop,
    )
    if outcome.exit_code != 0:
        if not block.failures:
            reason = outcome.reason or f"status {outcome.exit_code}"
            block.failures.append(f"{program.name}: {reason}")
        block.failures[-1] += f"\nthe end of its console:\n{outcome.console_tail()}"
    _check_results(block)
    return block


def _check_results(block: Block) -> None:
    """Checks that a program's result is the same under every placement of its pages."""
    sums = {run.policy: run.printed["checksum"] for run in block.runs if "checksum" in run.printed}
    if len(set(sums.values())) > 1:
        raise LabError(f"{block.program.name} computed different sums: {sums}")


def _text(blocks: Sequence[Block], as_markdown: bool) -> str:
    draw = markdown if as_markdown else aligned
    parts = []
    for block in blocks:
        parts += [about(block.program, block.runs), draw(HEADER, rows(block.runs))]
    return "\n\n".join([*parts, NOTE])


# The runs of each program, by kernel and state of the host.
Records = dict[tuple[str, str], dict[str, list[Run]]]


def _read(files: Sequence[Path]) -> Records:
    found: Records = {}
    for block in (block for file in files for block in read_record(file)):
        for one in map(_read_run, block["runs"]):
            programs = found.setdefault((block["kernel"], one.host), {})
            programs.setdefault(one.program, []).append(one)
    return dict(sorted(found.items()))


def _gains(records: Records, as_markdown: bool) -> str:
    """Returns a table of all programs for each kernel and state of the host."""
    draw = markdown if as_markdown else aligned
    parts = []
    for (kernel, host), programs in records.items():
        mean = mean_ratio(programs)
        ratio = f", {mean:.2f} of kernel tiering's excess in the geometric mean" if mean else ""
        parts += [f"{kernel}, {host}: seconds{ratio}", draw(*gains(programs))]
    return "\n\n".join(parts)


def _draw(records: Records, file: Path) -> None:
    titled = {f"Linux {kernel}, {host}": programs for (kernel, host), programs in records.items()}
    beside = file.with_name(f"{file.name}.tmp")
    try:
        picture.draw(titled, beside)
    except ImportError as error:
        raise LabError(f"--picture {file}: {error}; pip install matplotlib") from error
    os.replace(beside, file)


def _read_run(recorded: Mapping[str, Any]) -> Run:
    return Run.of({name: value for name, value in recorded.items() if name not in COMPUTED})


def read_record(file: Path) -> Any:
    """Returns the record that an earlier run kept."""
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise LabError(f"--read {file}: {error}; a file that --keep wrote is needed") from error


def _run_json(run: Run) -> dict[str, Any]:
    return {**asdict(run), **{name: getattr(run, name) for name in COMPUTED}}


def _json(blocks: Sequence[Block]) -> str:
    """Returns the record: what `tierwise validate` reads, and the figures of the tables."""
    boot = BOOTS["timed"]
    guest = {"cpus": boot.mode.processors, "latency_ns": boot.topology.latency_ns}
    printed: list[dict[str, Any]] = [
        {
            "program": block.program.name,
            "about": block.program.about,
            "kernel": block.kernel,
            "guest": guest,
            "granule_kib": block.program.granule_kib,
            "tie": block.tie,
            "runs": [_run_json(run) for run in block.runs],
        }
        for block in blocks
        if block.runs
    ]
    return json.dumps(printed, indent=2)
