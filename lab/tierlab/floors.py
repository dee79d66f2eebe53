"""`python3 -m tierlab floors`: two, eight and thirty batch programs, each with a floor, side by
side in timed guests (lab/bench/neighbours.py)."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.floors_table import HEADER, REFERENCE, FloorsRun, RunSet, rows
from bench.neighbours import GUARANTEED_MIB, RUN_S, SETTLING_S, SIZES
from bench.table import aligned, markdown

from .bench import read_record, write_whole
from .kernel import series
from .mix import add_common_options, require_daemon, run_policies
from .paths import Paths

POLICIES = (
    "first-touch",
    REFERENCE,
    "kernel-default",
    "tierwise",
    "tierwise-installed",
    "tierwise-no-floors",
)
NOTE = f"""\
Emulated guests with one CPU: only ratios within one set of runs mean anything. Floors add up to
{GUARANTEED_MIB} MiB, half of the fast memory. The first {SETTLING_S} of {RUN_S} s do not count.
"work" is the geometric mean over the tenants, "least tenant" the one that did least. "floor held"
is a tenant's fast memory relative to its floor, up to 100 %."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    add_common_options(parser, POLICIES, REFERENCE)
    parser.add_argument(
        "--tenants",
        action="append",
        type=int,
        choices=tuple(SIZES),
        help="only this number of them; repeatable",
    )


def floors(paths: Paths, options: argparse.Namespace) -> int:
    """Runs everything and prints it; returns the exit status."""
    sets = _read(options.read) if options.read else _measured(paths, options)
    draw = markdown if options.markdown else aligned
    print(draw(HEADER, [row for of_number in sets.values() for row in rows(of_number)]))
    print(f"\n{NOTE}")
    return 0


# The sets of runs for each number of tenants.
Sets = dict[int, list[RunSet]]


def _measured(paths: Paths, options: argparse.Namespace) -> Sets:
    kernel = series(options.kernel).name
    require_daemon("floors")
    named = options.policy or POLICIES
    wanted = [name for name in POLICIES if name == REFERENCE or name in named]
    sets: Sets = {number: [] for number in SIZES if number in (options.tenants or SIZES)}
    for turn in range(options.runs):
        for number, of_number in sets.items():
            print(f"lab: {number} tenants, set {turn + 1} of {options.runs}", file=sys.stderr)
            of_number.append(_measure(paths, kernel, number, wanted, options.logs))
            if options.keep:
                write_whole(options.keep, _json(kernel, sets))
    return sets


def _measure(
    paths: Paths, kernel: str, number: int, policies: Sequence[str], logs: Path | None
) -> RunSet:
    runs: dict[str, FloorsRun] = {}

    def on_run(reported: dict[str, Any]) -> None:
        run = FloorsRun(**reported)
        runs[run.policy] = run
        held = run.floors_held()
        worst, mean = min(held), sum(held) / len(held)
        line = f"lab: {run.policy}: floors held {worst:.0%} at worst, {mean:.1%} on average"
        print(line, file=sys.stderr, flush=True)

    run_policies(paths, kernel, ("bench.floors", str(number)), policies, logs, on_run)
    return runs


def _json(kernel: str, sets: Sets) -> str:
    found = {
        str(number): [{name: asdict(run) for name, run in one.items()} for one in of_number]
        for number, of_number in sets.items()
    }
    return json.dumps({"kernel": kernel, "sets": found})


def _read(file: Path) -> Sets:
    return {
        int(number): [{name: FloorsRun(**run) for name, run in one.items()} for one in of_number]
        for number, of_number in read_record(file)["sets"].items()
    }
