"""Measures a signal of objects on one workload, as bench/measure.py does a signal of pages, and the
speed at which objects are found.

`measure_objects.py WORKLOAD growth|refdelta [SECONDS [BUDGET]]` prints a JSON line.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import emt_reproduction
from emt_reproduction import _objects
from emt_reproduction.pool_objects import types_of_objects
from measure import main


def sampling_speed() -> dict[str, float]:
    """Measures objects per second by pool walk, and by marking."""
    objects = _objects.Objects(False)
    _, _, known, collect_ns = objects.collect(types_of_objects(), 1 << 31)
    objects.sample()
    sampled, cpu_ns = objects.sample()
    objects.close()
    began = time.thread_time()
    marked = len(_objects.mark(10**6, 64)) // 8
    marking_s = time.thread_time() - began
    return {
        "objects": known,
        "pool_walk_objects_per_s": sampled / (cpu_ns / 1e9),
        "find_objects_s": collect_ns / 1e9,
        "marked": marked,
        "marking_pause_s": marking_s,
    }


if __name__ == "__main__":
    found = main(
        sys.argv[1],
        sys.argv[2],
        *map(float, sys.argv[3:]),
        tiering=emt_reproduction.tiering,
    )
    print(json.dumps({**found, "speed": sampling_speed()}))
