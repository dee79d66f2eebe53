"""In the guest: the program whose run time is measured.
`placed.py WORKLOAD TIMES PLACING REPORT GO`

It fills its memory, writes REPORT, waits for GO, and then does a fixed amount of work TIMES times.
It prints the seconds and the result of the work. It creates the objects that the work uses most
last, unless the workload strews them: with first-touch placement they start on the slow node.

WORKLOAD is one of those here, or one of bench/workloads.py at a part of its size.

PLACING is "emt" for tracking while it works, "heaps" if the program itself tells the objects that
it seldom uses from the others, "heaps-emt" for both, "heaps-wrong" for both where the program takes
one for the other, "profile" if their lines do, by a profile of an earlier run, and "none" for all
others.

A program imports its packages at its start, so the import is not between the two clock readings.
Its CPU time is added to the seconds. The disk's time is not: the guest's page cache is empty before
each run, and an emulated disk takes a second for it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import json
import os
import random
import sys
import tempfile
import time
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

#: Free memory of the fast node; the kernel uses about as much of the node itself.
KEPT_FREE = "12MiB"
MIB = 1 << 20
OBJECTS, HOT_PART, USES = 300_000, 5, 8_000_000
DOCUMENTS = 25_000
#: Records of `strewn`, of some 300 bytes: so many that its fifth, with the list of all records and
#: the interpreter, has little more than a quarter of the whole.
RECORDS = 600_000
#: Uses of a step of `strewn`: some four misses each, and little else.
STREWN_USES = 2_000_000
#: Uses that are drawn; a step repeats them. Those that are drawn together.
DRAWN_USES, PIECE = 500_000, 1000
#: Where the profile lies.
PROFILE = Path(tempfile.gettempdir()) / "sites.json"
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


def _archived(number: int) -> list[object]:
    return [3 * number + 1000, number / 3, number / 5, number / 7, number / 9, number / 11]


def _current(number: int) -> list[object]:
    return [3 * number + 1000, number / 3, number / 5, number / 7, number / 9, number / 11]


def strewn() -> Work:
    """Makes RECORDS records in a random order, a fifth of them current and the others archived;
    nine in ten uses go to the current ones."""
    draw = random.Random(3)
    seldom, often = BLOCKS
    records = []
    current = array("I")
    for number in range(RECORDS):
        # Without a float, whose memory the record's would take from the interpreter's free list.
        if draw.getrandbits(32) % HOT_PART == 0:
            current.append(number)
            with often:
                record = _current(number)
        else:
            with seldom:
                record = _archived(number)
        # Not in the block: the table of the list, which every use reads, would be in its heap.
        records.append(record)
    order = array("I")
    every = range(RECORDS)
    for _ in range(DRAWN_USES // PIECE):
        # Every tenth is one of all, so that both kinds are mixed.
        piece = draw.choices(current, k=PIECE)
        piece[::10] = draw.choices(every, k=PIECE // 10)
        order.extend(piece)

    def work() -> int:
        total = 0
        for _ in range(STREWN_USES // len(order)):
            for record in map(records.__getitem__, order):
                total += record[0]  # type: ignore[operator]
        return total

    return work


def cache() -> Work:
    """A cache of decoded JSON documents, least recently used, of which a step looks up 40,000; keys
    by Zipf's law, four times as many as it holds."""
    draw = random.Random(4)
    entries: OrderedDict[int, dict[str, object]] = OrderedDict()
    # Half of the look-ups go to a twelfth of the keys.
    weights = list(itertools.accumulate(1 / (n + 1) ** 0.99 for n in range(4 * DOCUMENTS)))
    keys = list(range(4 * DOCUMENTS))
    draw.shuffle(keys)

    def load(number: int) -> dict[str, object]:
        document: dict[str, object] = json.loads(
            f'{{"id": {number}, "title": "document {number}", "tags": ["a{number % 97}", '
            f'"b{number % 89}"], "price": {number / 7}, "body": "{"text " * 40}{number}"}}'
        )
        return document

    def look_up(number: int) -> dict[str, object]:
        try:
            entries.move_to_end(number)
            return entries[number]
        except KeyError:
            found = entries[number] = load(number)
            if len(entries) > DOCUMENTS:
                entries.popitem(last=False)
            return found

    for number in keys[:DOCUMENTS][::-1]:
        look_up(number)

    def work() -> int:
        total = 0
        for number in draw.choices(keys, cum_weights=weights, k=40_000):
            total += len(look_up(number)["tags"])  # type: ignore[arg-type]
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


#: Steps of bench/workloads.py that make some two seconds of work here.
STEPS = {
    "astar": 4,
    "bellman": 1,
    "bfs": 3,
    "bfs-rand": 3,
    "bidirectional": 1,
    "kc": 1,
    "lc": 1,
    "sp": 4,
    "sql1": 2,
    "sql2": 2,
    "sql3": 10,
    "dataframe": 90,
    "embedding": 40,
    "service": 30,
    "lru": 150,
}
#: Their size: a guest's CPU is emulated, and its slow node has 512 MiB.
SCALE = "0.15"


def counted(result: Any) -> int:
    """Returns a number for a step's result, which is a number, some items, or nothing; it must not
    depend on the placing."""
    if isinstance(result, (int, float)):
        return int(result)
    return 0 if result is None else len(result)


def from_table(name: str) -> Work:
    """Makes a workload of bench/workloads.py, which lies beside this package in the guest, with the
    packages that it needs."""
    os.environ["TIERWISE_EMT_BENCH_SCALE"] = SCALE
    there = Path(__file__).resolve().parents[1]
    sys.path += [str(there), str(there / "packages")]
    step = importlib.import_module("workloads").WORKLOADS[name]()

    def work() -> int:
        return sum(counted(step()) for _ in range(STEPS[name]))

    return work


WORKLOADS: dict[str, Callable[[], Work]] = {
    **{name: functools.partial(from_table, name) for name in STEPS},
    "hotspot": hotspot,
    "search": search,
    "strewn": strewn,
    "cache": cache,
}
#: The blocks in which a workload makes objects that it seldom uses, and often.
BLOCKS: tuple[AbstractContextManager[object], AbstractContextManager[object]] = (
    contextlib.nullcontext(),
    contextlib.nullcontext(),
)


@contextlib.contextmanager
def tiered(policy: str) -> Iterator[dict[str, object]]:
    """Tiers while the block runs, if the policy is "emt"; yields the statistics."""
    reported: dict[str, object] = {}
    if policy not in ("emt", "heaps-emt", "heaps-wrong"):
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


def heap_shares(emt: Any) -> dict[str, float]:
    """Returns the shares of the heaps' pages that are on the fast node."""
    kernel = importlib.import_module("tierwise.emt.native").NativeKernel()
    shares: dict[str, float] = {}
    for name, heap in emt.heaps().items():
        nodes = kernel.nodes(array("Q", range(heap.start, heap.end, 4096)))
        present = [node for node in nodes if node >= 0]
        shares[f"{name}_pages"] = len(present)
        shares[f"{name}_fast_share"] = present.count(0) / max(1, len(present))
        # Addresses that prefer the fast node, of those in use.
        shares[f"{name}_fast_mib"] = (min(heap.fast_end, heap.end) - heap.start) / MIB
    return shares


def main(workload: str, times: int, policy: str, report: Path, go: Path) -> None:
    """Runs a workload and prints a JSON line."""
    before = time.process_time()
    if policy != "none":
        emt = importlib.import_module("tierwise.emt")
        if policy.startswith("heaps"):
            emt.segregate([1])
            global BLOCKS
            BLOCKS = (emt.cold(), emt.hot())
            if policy == "heaps-wrong":
                BLOCKS = BLOCKS[::-1]
        elif policy == "profile":
            emt.segregate([1], profile=PROFILE, mem_pressure=KEPT_FREE)
    import_s = time.process_time() - before
    began = time.monotonic()
    work = WORKLOADS[workload]()
    fill_s = time.monotonic() - began
    report.write_text("filled\n", encoding="ascii")
    while not go.exists():
        time.sleep(0.01)
    began = time.monotonic()
    with tiered(policy) as reported:
        result = sum(work() for _ in range(times))
    seconds = import_s + time.monotonic() - began
    if policy != "none":
        reported.update(heap_shares(emt))
    times_s = {"seconds": seconds, "import_s": import_s, "fill_s": fill_s}
    print(json.dumps({**times_s, "result": result, **reported}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], Path(sys.argv[4]), Path(sys.argv[5]))
