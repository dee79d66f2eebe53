"""In the guest: a workload of table 3 with one demotion rule. `profiled.py WORKLOAD none|lazy|eager
STEPS REPORT GO`

It fills its memory, writes REPORT, waits for GO, and does STEPS steps; with 0, as many as take
`SECONDS`. It prints a JSON line.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

#: A guest's CPU is emulated. The workloads therefore have a twentieth of their size on the host, as
#: for the recorded samples.
SCALE = "0.05"
SECONDS = 6.0
#: Free memory of the fast node; the kernel uses about as much of the node itself.
KEPT_FREE = "12MiB"
#: A run takes seconds, and programs take minutes. Tracking samples more often and may cost more
#: here, so that a run has enough intervals.
BUDGET, INTERVAL_S = 0.1, 0.1

os.environ["TIERWISE_EMT_BENCH_SCALE"] = SCALE

import tierwise.emt as emt
from workloads import WORKLOADS, Step


def work(step: Step, steps: int) -> int:
    """Does the steps, and returns their number."""
    began, done = time.monotonic(), 0
    while done < steps or (steps == 0 and time.monotonic() - began < SECONDS):
        step()
        done += 1
    return done


def main(workload: str, demotion: str, steps: int, report: Path, go: Path) -> None:
    """Runs a workload and prints a JSON line."""
    step = WORKLOADS[workload]()
    report.write_text("filled\n", encoding="ascii")
    while not go.exists():
        time.sleep(0.01)
    eagerness: list[float] = []
    began = time.monotonic()
    if demotion == "none":
        done = work(step, steps)
    else:
        with emt.tiering(
            [1],
            mem_pressure=KEPT_FREE,
            sample_interval=INTERVAL_S,
            overhead_budget=BUDGET,
            demotion=demotion,
            callback=lambda stats: eagerness.append(stats.eagerness),
        ) as tiering:
            done = work(step, steps)
        stats = tiering.stats()
    reported = {"seconds": time.monotonic() - began, "steps": done, "eagerness": eagerness}
    if demotion != "none":
        reported.update(
            promoted=stats.promoted, demoted=stats.demoted, source=stats.eagerness_source
        )
    print(json.dumps(reported))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]), Path(sys.argv[5]))
