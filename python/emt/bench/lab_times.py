"""Measures run times with a part of the resident set fast, in the lab's timed guest.

`lab_times.py [WORKLOAD[:TIMES[:SHARE]]...]` prints a table in Markdown. It compares no
tiering, the kernel's tiering and tierwise.emt, each with 25, 50 and 75 % fast, with the run time
with everything fast. TIMES multiplies the amount of work; with SHARE only that part is fast. It
needs `make lab` and python/emt/lab.sh first, and half an hour of an idle machine.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import timed_guest

WORKLOADS = ("hotspot", "search")


def table(runs: Sequence[dict[str, Any]]) -> str:
    """Formats the slowdowns against everything fast."""
    lines = [
        "| workload | resident | fast | no tiering | kernel tiering | tierwise.emt "
        "| promoted, demoted |",
        "|---|---|---|---|---|---|---|",
    ]
    for bound in (run for run in runs if run["placing"] == "all-fast"):
        of_workload = {
            (run["share"], run["placing"]): run
            for run in runs
            if run["workload"] == bound["workload"]
        }
        for share in sorted({share for share, _ in of_workload if share < 1.0}):
            slow = {
                placing: of_workload[share, placing]["seconds"] / bound["seconds"]
                for placing in ("none", "kernel", "emt")
            }
            emt = of_workload[share, "emt"]
            lines.append(
                f"| {bound['workload']} | {bound['resident_mib']:.0f} MiB | {share:.0%} | "
                f"{slow['none']:.3f} | {slow['kernel']:.3f} | {slow['emt']:.3f} | "
                f"{emt['promoted']}, {emt['demoted']} |"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(timed_guest.run("emtbench", sys.argv[1:] or WORKLOADS)))
