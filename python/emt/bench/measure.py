"""Measures the costs and findings of tracking on one workload.

`measure.py WORKLOAD SIGNAL [SECONDS [BUDGET]]` prints a JSON line. For signals of objects there is
reproduction/bench/measure_objects.py.

The program runs without a pause through three phases of SECONDS seconds of its own CPU time each:

1. the signal tracks within a budget, 2 % by default; its cost is the cost that it accounts for;
2. history: every page is protected in windows of 20 ms, and the windows in which it was touched are
   counted;
3. the same as phase 2: these accesses are the score's reference.

A ranking's score is the share of phase 3's touches on its top 10 or 25 % of pages. The signal ranks
by phase 1, the perfect history by phase 2, the oracle by phase 3 itself. Touches are writes: every
use of an object writes its reference count. Memory that is only read is not scored.

Costs are CPU time. The work per second of CPU time in phase 1 is compared with that of an untracked
phase before it and one after it.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import tierwise.emt as emt
from tierwise.emt.native import NativeTable
from tierwise.emt.process import PROCESS
from tierwise.emt.support import extension
from workloads import WORKLOADS, Step

WINDOW_NS = 20_000_000
ALL_PAGES = 1 << 40
#: So small that the decayed score is a count: the weights of 1000 windows differ by at most 1 %.
COUNTING_K = 1e-5


def program_s() -> float:
    """CPU time of this thread, which runs the workload."""
    return time.thread_time()


def work(step: Step, seconds: float) -> float:
    """Returns steps per second of CPU time, over at least this many seconds."""
    began, steps = program_s(), 0
    while (took := program_s() - began) < seconds:
        step()
        steps += 1
    return steps / took


def touches(step: Step, seconds: float) -> dict[int, float]:
    """Counts the touches of each page while the workload runs."""
    tracker, table = extension().Tracker("uffd-wp"), NativeTable()
    read, write = os.pipe()
    ends = threading.Event()

    def sample_until_stopped() -> None:
        while not ends.is_set():
            tracker.sample(table.inner, WINDOW_NS, WINDOW_NS, ALL_PAGES, COUNTING_K, read)

    thread = threading.Thread(target=sample_until_stopped)
    thread.start()
    work(step, seconds)
    ends.set()
    thread.join()
    tracker.close()
    os.close(read)
    os.close(write)
    addresses, counts, _ = table.pages()
    return dict(zip(addresses, counts, strict=True))


def caught(ranking: dict[int, float], scored: dict[int, float], share: float) -> float:
    """Returns the share of scored touches on the top share of pages. Pages that the ranking does
    not know come last."""
    order = sorted(scored, key=lambda address: (-ranking.get(address, -1.0), address))
    top = order[: round(len(order) * share)]
    return sum(scored[address] for address in top) / (sum(scored.values()) or 1.0)


def resident_bytes() -> int:
    """Returns the process's resident set in bytes."""
    statm = Path("/proc/self/statm").read_text(encoding="ascii")
    return int(statm.split()[1]) * os.sysconf("SC_PAGESIZE")


def main(
    workload: str,
    signal: str,
    seconds: float = 20.0,
    budget: float = 0.02,
    *,
    tiering: Callable[..., AbstractContextManager[emt.Tiering]] = emt.tiering,
) -> dict[str, object]:
    """Runs all phases; `tiering` tracks a block with a signal and a budget."""
    began = time.process_time()
    step = WORKLOADS[workload]()
    step()
    gc.collect()
    build_s = time.process_time() - began
    plain = [work(step, seconds / 2)]
    with tiering(signal=signal, overhead_budget=budget):
        tracked = work(step, seconds)
        found = PROCESS.last()
        assert found is not None
        addresses, hotness, _ = found.table.pages()
    stats = emt.stats()
    ranking = dict(zip(addresses, hotness, strict=True))
    plain.append(work(step, seconds / 2))
    history, scored = touches(step, seconds), touches(step, seconds)
    resident = resident_bytes()
    return {
        "workload": workload,
        "signal": signal,
        "budget": budget,
        "python": platform.python_version(),
        "resident_mb": resident / 1e6,
        "build_cpu_s": build_s,
        "setup_ms": stats.setup_s * 1e3,
        "overhead": stats.overhead,
        "overhead_by_rate": sum(plain) / 2 / tracked - 1,
        "rates": [plain[0], tracked, plain[1]],
        "memory_share": stats.memory_bytes / resident,
        "intervals": stats.intervals,
        "rested": stats.rested,
        "faults": stats.faults,
        "pages": len(scored),
        "pages_ranked": len(ranking),
        "caught": {
            f"{share:.0%}": {
                "signal": caught(ranking, scored, share),
                "history": caught(history, scored, share),
                "oracle": caught(scored, scored, share),
            }
            for share in (0.10, 0.25)
        },
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], *map(float, sys.argv[3:]))))
