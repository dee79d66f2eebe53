"""Measures the cost of tracking by the clock: `paired.py WORKLOAD [SIGNAL [PAIRS [SECONDS]]]`
prints a JSON line.

A pair has a phase with tracking and one without, each of SECONDS seconds of the program's CPU time;
their order alternates. The cost of a pair is the increase of CPU time per step with tracking, with
that of the tracking thread. It needs an idle machine: other load makes equal phases differ, and the
spread of the pairs shows it.
"""

from __future__ import annotations

import gc
import json
import platform
import statistics
import sys
import time

import tierwise.emt as emt
from measure import resident_bytes
from workloads import WORKLOADS, Step


def step_s(step: Step, seconds: float) -> float:
    """Returns the process's CPU time per step, over at least this many seconds."""
    began, steps = time.process_time(), 0
    while (took := time.process_time() - began) < seconds or not steps:
        step()
        steps += 1
    return took / steps


def tracked_s(step: Step, seconds: float, signal: str) -> float:
    """Returns the same with tracking, its set-up included."""
    began = time.process_time()
    with emt.tiering(signal=signal):
        begun = time.process_time() - began
        return step_s(step, seconds) * (1.0 + begun / seconds)


def main(
    workload: str, signal: str = "uffd-wp", pairs: str = "8", seconds: str = "6"
) -> dict[str, object]:
    """Runs all pairs."""
    step = WORKLOADS[workload]()
    step()
    gc.collect()
    costs = []
    for pair in range(int(pairs)):
        order = (True, False) if pair % 2 else (False, True)
        took = {
            tracked: tracked_s(step, float(seconds), signal)
            if tracked
            else step_s(step, float(seconds))
            for tracked in order
        }
        costs.append(took[True] / took[False] - 1.0)
    low, middle, high = statistics.quantiles(costs, n=4)
    return {
        "workload": workload,
        "signal": signal,
        "python": platform.python_version(),
        "resident_mb": resident_bytes() / 1e6,
        "pairs": costs,
        "quartiles": [low, middle, high],
    }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
