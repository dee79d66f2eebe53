"""Benches of several tenants, which run each policy once in one timed guest."""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from .bench import PROCESSOR
from .boots import BOOTS
from .errors import LabError
from .guest import Guest
from .job import Job
from .kernel import SERIES
from .paths import BENCH_FILES, Paths, tested_program

# Seconds of the host for all policies. An idle machine takes some twenty minutes, and a busy one
# several times as long.
TIMEOUT_S = 7200.0
# The fast node holds the kernel and all tenants.
NODE_MIB = (448, 512)


def add_common_options(
    parser: argparse.ArgumentParser, policies: Sequence[str], beside: str
) -> None:
    """Adds the options of every bench of several tenants. `beside` is the policy that always
    runs."""
    parser.add_argument(
        "--kernel", default=SERIES[-1].name, help="the kernel series (default: %(default)s)"
    )
    parser.add_argument(
        "--policy",
        action="append",
        choices=[name for name in policies if name != beside],
        help=f"only this one beside {beside}; repeatable",
    )
    parser.add_argument(
        "--runs", type=int, default=1, metavar="N", help="runs of each (default: %(default)s)"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="write the record to this file after every set"
    )
    parser.add_argument(
        "--read", type=Path, metavar="FILE", help="print the tables of a record, and run nothing"
    )
    parser.add_argument(
        "--logs",
        type=Path,
        metavar="DIRECTORY",
        help="write the daemon's debug log and its view of each second there; both take the "
        "guest's time",
    )
    parser.add_argument("--markdown", action="store_true", help="print tables in Markdown")


def require_daemon(command: str) -> None:
    """Raises LabError unless there is a daemon to measure."""
    if not tested_program("tierwised"):
        raise LabError(
            f"{command} needs target/release/tierwised, which is not there: "
            "cargo build --release -p tierwised"
        )


def run_policies(
    paths: Paths,
    kernel: str,
    module: Sequence[str],
    policies: Sequence[str],
    logs: Path | None,
    on_run: Callable[[dict[str, Any]], None],
) -> None:
    """Runs each policy once in one guest, by a module of bench/ and its words before the policies.
    Calls `on_run` with each run's figures. Raises LabError if a run fails."""
    boot = BOOTS["timed"]
    topology = replace(boot.topology.sized(*NODE_MIB), extra=PROCESSOR)
    name, *words = module
    level = "TIERWISE_LOG=debug BENCH_LOGS=/results " if logs else ""
    line = " ".join([name, kernel, *words, *policies])
    command = f"{level}PYTHONPATH=/lab/python exec python3 -m {line}"
    failures = []

    def on_event(line: str) -> None:
        reported: dict[str, Any] = json.loads(line)
        if "failed" in reported:
            failures.append(f"{reported['policy']}: {reported['failed']}")
        else:
            on_run(reported)

    outcome = Guest(paths, kernel, topology, boot.mode).run(
        Job(command, files=BENCH_FILES), TIMEOUT_S, on_event, results=logs
    )
    if failures or outcome.exit_code != 0:
        reason = "; ".join(failures) or outcome.reason or f"status {outcome.exit_code}"
        raise LabError(f"{name}: {reason}\nthe end of its console:\n{outcome.console_tail()}")
