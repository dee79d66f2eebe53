"""How fast could a program be, and how much of the oracle's share could it have, if the kernel's
scans were all that shows its pages?

Usage: scans.py RECORDINGS RECORD.json...

RECORDINGS is the directory of `python3 -m tierlab record`, a record is one of `python3 -m tierlab
bench --keep`, with runs of all fast, first touch and tierwise. Needs numpy and the package tierwise
(`scripts/setup.sh`).

The model replays the recording with one scan every so many seconds. A scan poisons all slow pages;
a page whose first access follows within the threshold moves to the fast tier if there is room. It
is better informed than any daemon: it knows, at no cost, the misses of each fast page in the last
half second, and demotes those with the fewest, if they have fewer than a part of what the scan's
candidates had in the mean. The best of all periods, thresholds and parts is chosen afterwards, for
each program. So what it cannot reach, steering cannot reach by another choice of these.
"""

import json
import sys
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import mean, median

import numpy as np
from tierwise import read_trace

# Seconds, measured in the lab's timed guests (docs/steering.md, docs/fidelity.md): a miss of the
# fast node and what one of the slow node takes longer; a copy of a page that no cache holds; a hint
# fault; a page that a scan poisons.
FAST_MISS, SLOWER = 90e-9, 130e-9
COPY, FAULT, POISON = 30e-6, 2.9e-6, 0.9e-6
# The kernel scans a thread for at most this part of its CPU time (task_numa_work).
SCAN_PART = 1 / 32
PERIODS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
THRESHOLDS = (0.03, 0.1, 0.3, 1.0)
# A page is demoted if it had fewer misses than this part of the candidates' mean.
PARTS = (0.25, 0.5, 1.0)
# How far back the misses of fast pages are known; longer than the longest window.
KNOWN = 0.5
# The bench's oracle knows parts of this length, and its steady state is the last third.
PART, STEADY = 2.0, 2 / 3
# The part of the oracle's share that the bench aims at.
NEAR = 0.9
PAGES_PER_MIB = 256


@dataclass(frozen=True)
class Program:
    """A recorded program; rows of the matrices are windows, columns are pages."""

    misses: np.ndarray
    accesses: np.ndarray
    # Seconds of each window with fast memory only.
    all_fast: np.ndarray
    room: int
    # The pages that are fast at the start.
    start: np.ndarray

    def per(self, seconds: float) -> int:
        """Returns how many windows of a tiered run are about this long."""
        return max(1, round(seconds / (self.all_fast.mean() * 1.3)))


def matrices(recording: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns misses and accesses by window and page, and instructions by window, of the marked
    part."""
    rows, windows = read_trace(recording, "accesses"), read_trace(recording, "windows")
    marks = windows["marks"]
    first = marks.index("run")
    last = next((i for i, mark in enumerate(marks) if mark.startswith("end")), len(marks))
    window = rows["window"].astype(np.int64)
    inside = (window >= first) & (window < last)
    pages, column = np.unique(rows["page"][inside], return_inverse=True)
    at = (window[inside] - first, column)
    misses, accesses = (np.zeros((last - first, len(pages)), np.float32) for _ in range(2))
    np.add.at(misses, at, (rows["load_misses"] + rows["store_misses"])[inside])
    np.add.at(accesses, at, (rows["loads"] + rows["stores"])[inside])
    return misses, accesses, windows["instructions"][first:last].astype(float)


def room_pages(run: dict) -> int:
    """Returns the pages that the program had of the fast node near its end, and those free there
    above the high watermark."""
    point = run["course"][-3]
    free = max(point["free_mib"] - run["watermarks_mib"]["high"], 0)
    return int((point["fast_mib"] + free) * PAGES_PER_MIB)


def load(recording: Path, runs: dict[str, list[dict]]) -> Program:
    """Returns the program, on a machine like that of its runs in the guest."""
    misses, accesses, instructions = matrices(recording)
    beside = median(run["seconds"] for run in runs["all-fast"]) - misses.sum() * FAST_MISS
    all_fast = instructions / instructions.sum() * beside + misses.sum(1) * FAST_MISS
    room = int(median(map(room_pages, runs["tierwise"])))
    return Program(
        misses, accesses, all_fast, room, held_at_start(misses.sum(0), runs["first-touch"])
    )


def held_at_start(misses: np.ndarray, runs: list[dict]) -> np.ndarray:
    """Returns which pages are fast at the start: as many as under first touch, one after the other
    in the order of first use, from where they have the share of the misses that was fast there. A
    program that frees memory before its work does not have its first pages there."""
    held = int(mean(run["fast_mib_at_start"] for run in runs) * PAGES_PER_MIB)
    sums = np.concatenate([[0.0], np.cumsum(misses, dtype=float)])
    shares = (sums[held:] - sums[:-held]) / sums[-1]
    first = int(np.abs(shares - mean(run["fast_share"] for run in runs)).argmin())
    start = np.zeros(len(misses), bool)
    start[first : first + held] = True
    return start


def exchange(
    program: Program, fast: np.ndarray, candidates: np.ndarray, now: int, part: float
) -> int:
    """Moves candidates to the fast tier while there is room or a page with fewer misses; returns
    the copies made."""
    known = program.misses[max(0, now - program.per(KNOWN)) : now + 1].sum(0)
    held = np.flatnonzero(fast)
    free = max(program.room - len(held), 0)
    victims = held[np.argsort(known[held])]
    wanted = max(min(len(candidates) - free, len(victims)), 0)
    worth = known[candidates].mean() * part
    victims = victims[:wanted][known[victims[:wanted]] < worth]
    taken = candidates[: free + len(victims)]
    fast[victims] = False
    fast[taken] = True
    return len(taken) + len(victims)


def replay(
    program: Program, period: float, threshold: float, part: float
) -> tuple[float, np.ndarray]:
    """Returns the seconds of the run, and the misses of each window that were fast."""
    fast = program.start.copy()
    poisoned = np.zeros_like(fast)
    served = np.zeros(len(program.misses))
    shuffled = np.random.default_rng(2)
    now = poisoned_at = 0.0
    next_scan = 0.3  # the daemon's first count of idle pages takes as long
    for at, (missed, used) in enumerate(zip(program.misses, program.accesses)):
        seconds = program.all_fast[at] + missed[~fast].sum() * SLOWER
        if now >= next_scan:
            poisoned, poisoned_at = ~fast, now
            scan = poisoned.sum() * POISON
            seconds += scan
            next_scan = now + max(period, scan / SCAN_PART)
        faulted = np.flatnonzero(poisoned & (used > 0))
        poisoned[faulted] = False
        seconds += len(faulted) * FAULT
        first = now - poisoned_at + program.all_fast[at] / (used[faulted] + 1)
        candidates = shuffled.permutation(faulted[first < threshold])
        if len(candidates):
            seconds += exchange(program, fast, candidates, at, part) * COPY
        served[at] = missed[fast].sum()
        now += seconds
    return now, served


def oracle(program: Program) -> np.ndarray:
    """Returns the misses of each window on the hottest pages of its part."""
    found, part = np.zeros(len(program.misses)), program.per(PART)
    for first in range(0, len(found), part):
        rows = program.misses[first : first + part]
        hottest = np.argsort(-rows.sum(0))[: program.room]
        found[first : first + part] = rows[:, hottest].sum(1)
    return found


def print_row(record: dict, recordings: Path) -> None:
    """Prints the program's row."""
    name = record["program"]
    runs: dict[str, list[dict]] = {}
    for run in record["runs"]:
        runs.setdefault(run["policy"], []).append(run)
    program = load(recordings / f"{name}.twt", runs)
    best = oracle(program)
    steady = int(len(best) * STEADY)
    found = []
    for period, threshold, part in product(PERIODS, THRESHOLDS, PARTS):
        seconds, served = replay(program, period, threshold, part)
        found.append((seconds, served[steady:].sum() / best[steady:].sum(), period, threshold))
    fastest = min(found)
    near = min((one for one in found if one[1] >= NEAR), default=None)
    ours = ", ".join(f"{run['seconds']:.2f}" for run in runs["tierwise"])
    print(
        f"| {name} | {mean(run['seconds'] for run in runs['first-touch']):.2f} | {ours} "
        f"| {fastest[0]:.2f} | {fastest[1]:.0%} | {fastest[2]:g} s, {fastest[3]:g} s "
        f"| {f'{near[0]:.2f} | {near[2]:g} s, {near[3]:g} s' if near else '- | -'} |",
        flush=True,
    )


def main() -> None:
    """Prints a table in Markdown."""
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    print(
        "| program | first touch | tierwise | fastest | of the oracle | period, threshold "
        f"| fastest with {NEAR:.0%} | period, threshold |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for file in sys.argv[2:]:
        for record in json.loads(Path(file).read_text()):
            print_row(record, Path(sys.argv[1]))


if __name__ == "__main__":
    main()
