"""Records samples of objects with the true hotness of their pages, from one workload:
`record_samples.py WORKLOAD SIGNAL [SECONDS]` prints CSV.

The models of table 2 are fitted to these samples (fit_models.py). It runs on any interpreter;
growth needs the one of growth/build.sh.

Objects are a random draw of those that recursive marking finds. While the workload runs, their
counters are read nine times, which gives eight changes. At the same time all pages are
write-protected in windows of 20 ms, and the windows in which a page was touched are counted. These
counts are the truth; the paper uses DAMON's. An object's label is its page's count over the largest
count: 0 to 1, the same for all objects of a page.
"""

from __future__ import annotations

import csv
import gc
import os
import random
import sys
import threading
from array import array
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

from emt_reproduction import _objects
from emt_reproduction.policy.features import SAMPLES, changes_between
from measure import ALL_PAGES, COUNTING_K, WINDOW_NS, work
from tierwise.emt.native import NativeTable
from tierwise.emt.support import extension
from workloads import WORKLOADS, Step

#: Objects drawn from each workload. A fit of six numbers needs no more, and reading their counters
#: (a microsecond each) takes far less than an interval.
OBJECTS = 20_000
#: Limits of marking; the same as in marked_objects.py.
MAX_LENGTH, MAX_DEPTH = 1_000_000, 64
#: A reference count is read as 32 bits, and rises and falls.
BITS = 32


def draw_objects() -> array[int]:
    """Draws objects of the workload, and returns their addresses."""
    gc.collect()
    found = array("Q", _objects.mark(MAX_LENGTH, MAX_DEPTH))
    return array("Q", random.Random(4).sample(found, min(OBJECTS, len(found))))


def change(before: int, now: int, growth: bool) -> int:
    """Returns a change as csrc/objects.c computes it: a growth counter wraps, a reference count
    differs in either direction."""
    return (
        changes_between(before, now, BITS)
        if growth
        else changes_between(0, abs(now - before), BITS)
    )


def record(
    step: Step, addresses: array[int], growth: bool, seconds: float
) -> list[tuple[int, ...]]:
    """Returns the counters of all objects at nine times, and as the last row the touches of their
    pages, in thousandths of the maximum."""
    table, tracker = NativeTable(), extension().Tracker("uffd-wp")
    stop_read, stop_write = os.pipe()
    lines: list[tuple[int, ...]] = []
    ends = threading.Event()

    def sample_until_stopped() -> None:
        interval_ns = int(seconds * 1e9 / SAMPLES)
        for phase in range(SAMPLES + 1):
            values, readable = _objects.counters(addresses, growth)
            lines.append(
                tuple(
                    value if could else -1
                    for value, could in zip(array("I", values), readable, strict=True)
                )
            )
            if phase < SAMPLES:
                tracker.sample(
                    table.inner, interval_ns, WINDOW_NS, ALL_PAGES, COUNTING_K, stop_read
                )
        ends.set()

    thread = threading.Thread(target=sample_until_stopped)
    thread.start()
    while not ends.is_set():
        step()
    thread.join()
    tracker.close()
    os.close(stop_read)
    os.close(stop_write)
    most = max(table.pages()[1], default=0.0) or 1.0
    lines.append(tuple(round(1000 * table.hotness(address) / most) for address in addresses))
    return lines


def main(workload: str, signal: str, seconds: float) -> None:
    """Writes one line per object: workload, signal, eight changes, label."""
    growth = signal == "growth"
    if growth and not _objects.GROWTH_BUILD_ID:
        sys.exit(
            "record_samples: growth: this interpreter counts no changes of reference counts; "
            "growth/build.sh builds one that does"
        )
    step = WORKLOADS[workload]()
    work(step, 1.0)
    *counters, touches = record(step, draw_objects(), growth, seconds)
    writer = csv.writer(sys.stdout)
    for one, touched in zip(zip(*counters, strict=True), touches, strict=True):
        # An object that was freed in between does not have eight changes.
        if -1 not in one:
            pairs = zip(one, one[1:], strict=False)
            writer.writerow(
                [
                    workload,
                    signal,
                    *(change(before, now, growth) for before, now in pairs),
                    touched / 1000,
                ]
            )


if __name__ == "__main__":
    if (
        len(sys.argv) < 3
        or sys.argv[1] not in WORKLOADS
        or sys.argv[2] not in ("growth", "refdelta")
    ):
        sys.exit(
            "usage: record_samples.py WORKLOAD growth|refdelta [SECONDS]; workloads: "
            f"{', '.join(WORKLOADS)}"
        )
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]) if len(sys.argv) > 3 else 20.0)
