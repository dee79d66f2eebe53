"""Measures run times with a part of the resident set fast, in the lab's timed guest.

`lab_times.py [WORKLOAD[:TIMES[:SHARE[:PLACING,...]]]...]` prints a table in Markdown. It compares
the placings of lab/__main__.py, each with 25, 50 and 75 % fast, with the run time with everything
fast. TIMES multiplies the amount of work; with SHARE only that part is fast, with PLACING only
those run. It needs `make lab` and python/emt/lab.sh first, and an hour of an idle machine.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import timed_guest

WORKLOADS = ("hotspot", "search", "strewn", "cache")
HEADINGS = {
    "none": "no tiering",
    "kernel-default": "kernel tiering",
    "kernel": "kernel tiering, tuned",
    "emt": "tierwise.emt",
    "heaps": "heaps",
    "heaps-emt": "heaps and tierwise.emt",
    "profile": "heaps by a profile",
}


def table(runs: Sequence[dict[str, Any]]) -> str:
    """Formats the slowdowns against everything fast."""
    lines = [
        f"| workload | resident | fast | {' | '.join(HEADINGS.values())} | promoted, demoted |",
        "|---" * (len(HEADINGS) + 4) + "|",
    ]
    for bound in (run for run in runs if run["placing"] == "all-fast"):
        of_workload = {
            (run["share"], run["placing"]): run
            for run in runs
            if run["workload"] == bound["workload"] and "share" in run
        }
        for share in sorted({share for share, _ in of_workload if share < 1.0}):
            found = {placing: of_workload.get((share, placing)) for placing in HEADINGS}
            slow = (
                f"{run['seconds'] / bound['seconds']:.3f}" if run else "" for run in found.values()
            )
            emt = found["emt"]
            moved = f"{emt['promoted']}, {emt['demoted']}" if emt else ""
            lines.append(
                f"| {bound['workload']} | {bound['resident_mib']:.0f} MiB | {share:.0%} | "
                f"{' | '.join(slow)} | {moved} |"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(timed_guest.run("emtbench", sys.argv[1:] or WORKLOADS)))
