"""Runs a module of `lab/` in the lab's timed guest. It needs `make lab` and python/emt/lab.sh
first."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "lab"))

from tierlab.bench import NODE_MIB, PROCESSOR
from tierlab.boots import BOOTS
from tierlab.guest import Guest
from tierlab.job import Job
from tierlab.paths import LAB, Paths

KERNEL = "7"
TIMEOUT_S = 7200.0


def run(
    module: str,
    words: Sequence[str],
    files: Mapping[str, Path] | None = None,
    on_run: Callable[[str], None] = lambda line: None,
) -> list[dict[str, Any]]:
    """Runs `python3 -m module KERNEL WORDS...` in the guest, and returns its report: one JSON
    object per run. `on_run` gets each as it comes. `files` lie beside the module under their names.

    Raises:
        SystemExit: The module failed; the message ends with the end of the guest's console.
    """
    # A regular exit ends the guests; the signal's default action would not.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    boot = BOOTS["timed"]
    runs: list[dict[str, Any]] = []

    def on_event(line: str) -> None:
        print(line, file=sys.stderr, flush=True)
        on_run(line)
        runs.append(json.loads(line))

    guest = Guest(
        Paths.default(), KERNEL, replace(boot.topology.sized(*NODE_MIB), extra=PROCESSOR), boot.mode
    )
    command = f"PYTHONPATH=/lab/python exec python3 -m {module} {KERNEL} {' '.join(words)}"
    all_files = {"bench": LAB / "bench", "emtbench": HERE / "lab", **(files or {})}
    outcome = guest.run(Job(command, files=all_files), TIMEOUT_S, on_event)
    if outcome.exit_code != 0:
        sys.exit(f"{module}: {outcome.reason or outcome.exit_code}\n{outcome.console_tail()}")
    return runs
