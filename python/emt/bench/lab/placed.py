"""In the guest: the program whose run time is measured. `placed.py WORKLOAD TIMES none|emt REPORT
GO`

It fills its memory, writes REPORT, waits for GO, and then does a fixed amount of work TIMES times.
It prints the seconds and the result of the work. It creates the objects that the work uses most
last: with first-touch placement they start on the slow node.

A program imports its packages at its start, so the import is not between the two clock readings.
Its CPU time is added to the seconds. The disk's time is not: the guest's page cache is empty before
each run, and an emulated disk takes a second for it.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

#: Free memory of the fast node; the kernel uses about as much of the node itself.
KEPT_FREE = "12MiB"
OBJECTS, HOT_PART, USES = 300_000, 5, 8_000_000
NODES, EDGES_OF_NODE, SEARCHES = 60_000, 6, 60

Work = Callable[[], int]


def hotspot() -> Work:
    """Makes OBJECTS lists and uses them; nine in ten uses go to the last fifth."""
    items = [[n, n, n, n] for n in range(OBJECTS)]
    draw = random.Random(1)
    cold = OBJECTS - OBJECTS // HOT_PART

    def work() -> int:
        total = 0
        for _ in range(USES):
            place = draw.random()
            # One draw decides both: a draw below a tenth chooses among all lists, a higher one
            # among the last fifth.
            n = (
                int(place * 10 * OBJECTS)
                if place < 0.1
                else cold + int((place - 0.1) / 0.9 * (OBJECTS - cold))
            )
            total += items[n][1]
        return total

    return work


def search() -> Work:
    """Breadth-first search in a random graph, from several nodes."""
    draw = random.Random(2)
    graph = {n: [draw.randrange(NODES) for _ in range(EDGES_OF_NODE)] for n in range(NODES)}
    # Objects that stand for the part of a program that it does not use.
    idle = [[n] for n in range(OBJECTS)]

    def work() -> int:
        found = 0
        for source in range(SEARCHES):
            seen, front = {source}, [source]
            while front:
                front = [
                    node
                    for at in front
                    for node in graph[at]
                    if node not in seen and not seen.add(node)  # type: ignore[func-returns-value]
                ]
            found += len(seen)
        return found + len(idle)

    return work


WORKLOADS: dict[str, Callable[[], Work]] = {"hotspot": hotspot, "search": search}


@contextlib.contextmanager
def tiered(policy: str) -> Iterator[dict[str, object]]:
    """Tiers while the block runs, if the policy is "emt"; yields the statistics."""
    reported: dict[str, object] = {}
    if policy != "emt":
        yield reported
        return
    emt = importlib.import_module("tierwise.emt")
    with emt.tiering([1], mem_pressure=KEPT_FREE) as tiering:
        yield reported
    stats = tiering.stats()
    reported.update(
        promoted=stats.promoted,
        demoted=stats.demoted,
        failed=stats.failed,
        overhead=stats.overhead,
        rested=stats.rested,
    )


def main(workload: str, times: int, policy: str, report: Path, go: Path) -> None:
    """Runs a workload and prints a JSON line."""
    before = time.process_time()
    if policy == "emt":
        importlib.import_module("tierwise.emt")
    import_s = time.process_time() - before
    work = WORKLOADS[workload]()
    report.write_text("filled\n", encoding="ascii")
    while not go.exists():
        time.sleep(0.01)
    began = time.monotonic()
    with tiered(policy) as reported:
        result = sum(work() for _ in range(times))
    seconds = import_s + time.monotonic() - began
    print(json.dumps({"seconds": seconds, "import_s": import_s, "result": result, **reported}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], Path(sys.argv[4]), Path(sys.argv[5]))
