"""`python3 -m tierlab slo`: two services with an SLO beside three batch programs, under a load that
rises step by step, in timed guests (lab/bench/mix.py)."""

import argparse
import json
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.mix import BATCH, LEFT_MIB, SERVICES
from bench.mix_scenario import RECIPES, scenario, simulated, with_settings
from bench.recording import tierwise
from bench.slo_table import (
    REFERENCE,
    STEP_HEADER,
    SUMMARY_HEADER,
    RunSet,
    SloRun,
    latencies,
    memory,
    summary,
    throughput,
)
from bench.table import BOUND, aligned, markdown

from .bench import read_record, record_program, write_whole
from .boots import BOOTS
from .command import run
from .kernel import series
from .mix import add_common_options, require_daemon, run_policies
from .paths import REPOSITORY, Paths

# The bound comes first, because the SLOs follow from it.
POLICIES = (
    BOUND,
    "first-touch",
    REFERENCE,
    "kernel-default",
    "tierwise",
    "tierwise-installed",
)
NOTE = """\
Emulated guests with one CPU: only ratios within one set of runs mean anything. Steps are shares of
the services' knees; the first is for settling and does not count. "steps kept" are those with a P99
within the SLO, of those that fast memory alone keeps; "worst P99" and "late requests" are of the
same steps. Work of batch programs is that of all steps that count. "!" marks a P99 above the SLO in
at least one run."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    add_common_options(parser, POLICIES, BOUND)
    parser.add_argument(
        "--no-simulation", action="store_true", help="measure only, and record no program"
    )


def slo(paths: Paths, options: argparse.Namespace) -> int:
    """Runs everything and prints it; returns the exit status."""
    sets = _read(options.read) if options.read else _measured(paths, options)
    print(_text(sets, options.markdown))
    if not options.no_simulation:
        print("\n" + _simulation(paths, sets[0], options.markdown))
    return 0


def _measured(paths: Paths, options: argparse.Namespace) -> list[RunSet]:
    kernel = series(options.kernel).name
    require_daemon("slo")
    wanted = (BOUND, *(name for name in POLICIES[1:] if name in (options.policy or POLICIES)))
    sets: list[RunSet] = []
    for number in range(options.runs):
        _report(f"set {number + 1} of {options.runs} on {kernel}")
        sets.append(_measure(paths, kernel, wanted, options.logs))
        if options.keep:
            write_whole(options.keep, _json(kernel, sets))
    return sets


def _measure(paths: Paths, kernel: str, policies: Sequence[str], logs: Path | None) -> RunSet:
    """Runs every policy once, in one guest."""
    runs: dict[str, SloRun] = {}

    def on_run(reported: dict[str, Any]) -> None:
        run = SloRun(**reported)
        runs[run.policy] = run
        _report(_one_line(run))

    run_policies(paths, kernel, ("bench.slo",), policies, logs, on_run)
    return RunSet(runs)


def _simulation(paths: Paths, measured: RunSet, as_markdown: bool) -> str:
    """Records the programs if that was not done, simulates the policies of a set of runs, and
    returns their tables."""
    for program in (one.recorded() for one in (*SERVICES, *BATCH)):
        if not (paths.recordings / f"{program.name}.twt").exists():
            record_program(paths, program, threading.Event())
    names = [name for name in RECIPES if name in measured.runs]
    runs = {name: _simulated(paths, name, measured) for name in names}
    draw = markdown if as_markdown else aligned
    return "\n\n".join(
        [
            "in the simulator",
            draw(SUMMARY_HEADER, summary([RunSet(runs)])),
            "P99 of each step's worst second, us",
            draw(STEP_HEADER, latencies([RunSet(runs)])),
            "fast memory, MiB",
            draw(STEP_HEADER, memory([RunSet(runs)])),
        ]
    )


def _simulated(paths: Paths, policy: str, measured: RunSet) -> SloRun:
    """Simulates the guest of a run."""
    live, bound = measured.runs[policy], measured.runs[BOUND]
    latency_ns = BOOTS["timed"].topology.latency_ns
    recipe = (REPOSITORY / "recipes" / f"{RECIPES[policy][0]}.toml").read_text()
    with tempfile.TemporaryDirectory(dir=paths.recordings, prefix="part-") as scratch:
        # Beside the recordings, whose paths it names.
        file = paths.recordings / f"slo-{policy}.toml"
        file.write_text(scenario(policy, live, bound, latency_ns))
        chosen = Path(scratch) / "recipe.toml"
        chosen.write_text(with_settings(recipe, live.settings))
        course = Path(scratch) / "course.jsonl"
        form = ["--interval", "1s", "--output", str(course)]
        run("simulate", [tierwise(), "simulate", str(file), "--recipe", str(chosen), *form])
        return simulated(policy, course.read_text(), live)


def _one_line(run: SloRun) -> str:
    parts = [
        f"{service.name} "
        + " ".join(
            f"{step['p99_us']:.0f}{'' if run.keeps(service.name, i) else '!'}"
            for i, step in enumerate(run.services[service.name])
        )
        for service in SERVICES
    ]
    return f"{run.policy}: P99 in us: {'; '.join(parts)}"


def _json(kernel: str, sets: Sequence[RunSet]) -> str:
    boot = BOOTS["timed"]
    guest = {
        "kernel": kernel,
        "cpus": boot.mode.processors,
        "latency_ns": boot.topology.latency_ns,
        "left_mib": LEFT_MIB,
    }
    runs = [{name: asdict(run) for name, run in one.runs.items()} for one in sets]
    return json.dumps({"guest": guest, "sets": runs})


def _read(file: Path) -> list[RunSet]:
    sets = read_record(file)["sets"]
    return [RunSet({name: SloRun(**run) for name, run in one.items()}) for one in sets]


def _text(sets: Sequence[RunSet], as_markdown: bool) -> str:
    draw = markdown if as_markdown else aligned
    slos = ", ".join(f"{name} {us:.0f} us" for name, us in sets[0].runs[BOUND].slo_us.items())
    return "\n\n".join(
        [
            f"SLOs: {slos}",
            draw(SUMMARY_HEADER, summary(sets)),
            "P99 in us",
            draw(STEP_HEADER, latencies(sets)),
            "fast memory, MiB",
            draw(STEP_HEADER, memory(sets)),
            "work per second, thousands",
            draw(STEP_HEADER, throughput(sets)),
            NOTE,
        ]
    )


def _report(text: str) -> None:
    print(f"lab: {text}", file=sys.stderr, flush=True)
