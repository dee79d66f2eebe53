"""Run times with a part of the resident set fast, in the lab's timed guest: `lab_times.py [WORKLOAD...]`, a table in Markdown.

No tiering, the kernel's tiering and tierwise.emt, each with 25, 50 and 75 % fast, over the run time with everything fast. It needs `make lab` and
python/emt/lab.sh first, and an hour of an idle machine.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Sequence
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
WORKLOADS = ("hotspot", "search")


def measure(workloads: Sequence[str]) -> list[dict[str, Any]]:
    """All runs, in one guest."""
    boot = BOOTS["timed"]
    runs: list[dict[str, Any]] = []

    def on_event(line: str) -> None:
        print(line, file=sys.stderr, flush=True)
        runs.append(json.loads(line))

    guest = Guest(Paths.default(), KERNEL, replace(boot.topology.sized(*NODE_MIB), extra=PROCESSOR), boot.mode)
    command = f"PYTHONPATH=/lab/python exec python3 -m emtbench {KERNEL} {' '.join(workloads)}"
    outcome = guest.run(Job(command, files={"bench": LAB / "bench", "emtbench": HERE / "lab"}), TIMEOUT_S, on_event)
    if outcome.exit_code != 0:
        sys.exit(f"lab_times: {outcome.reason or outcome.exit_code}\n{outcome.console_tail()}")
    return runs


def table(runs: Sequence[dict[str, Any]]) -> str:
    """Slowdown over everything fast."""
    lines = ["| workload | resident | fast | no tiering | kernel tiering | tierwise.emt | promoted, demoted |", "|---|---|---|---|---|---|---|"]
    for bound in (run for run in runs if run["placing"] == "all-fast"):
        of_workload = {(run["share"], run["placing"]): run for run in runs if run["workload"] == bound["workload"]}
        for share in sorted({share for share, _ in of_workload if share < 1.0}):
            slow = {placing: of_workload[share, placing]["seconds"] / bound["seconds"] for placing in ("none", "kernel", "emt")}
            emt = of_workload[share, "emt"]
            lines.append(
                f"| {bound['workload']} | {bound['resident_mib']:.0f} MiB | {share:.0%} | "
                f"{slow['none']:.3f} | {slow['kernel']:.3f} | {slow['emt']:.3f} | {emt['promoted']}, {emt['demoted']} |"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    # Guests are ended on the way out, which the signal's default would not do.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    print(table(measure(sys.argv[1:] or WORKLOADS)))
