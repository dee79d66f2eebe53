"""Measures run times of real programs in the lab's timed guest, against the kernel's tiering.

`goals.py RESULTS [RUNS [WORKLOAD...]]` has each workload run with a quarter of its resident set
fast, under each placing, until the file RESULTS has so many runs of it (5 by default), and prints a
table, worst first, and what is missing. It has a guest for each workload and round, so it can be
stopped and called again. With names only those workloads run, in their order. With 0 it only
prints; with `--into DOCUMENT` it writes the table into a document. It needs `make lab` and
python/emt/lab.sh first, and some ten minutes of an idle machine for each workload and round.

The workloads are the eleven of the paper, a pandas job, inference with an embedding table, a web
service with a cache, a cache of objects (workloads.py), and the strewn hot set of lab/placed.py.
"""

from __future__ import annotations

import itertools
import json
import math
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lab_times import HEADINGS, PACKAGES_OF, add_runs, replaced_from

SHARE, RUNS = 0.25, 5
#: How often a workload's piece of work is repeated: each has some two seconds.
TIMES = 8
#: What tierwise.emt is compared with, and its own placings.
OTHERS = ("none", "kernel-default", "kernel")
OURS = ("emt", "profile")
#: Workloads that say which objects they seldom use have heaps too.
OURS_OF = {"strewn": ("emt", "profile", "heaps")}
WORKLOADS = ("strewn", *PACKAGES_OF)
HEADER = "| workload | placing | over kernel tiering | tuned | no tiering | all fast | runs |"

Run = dict[str, Any]
Times = dict[tuple[str, str], list[float]]


def placings_of(workload: str) -> tuple[str, ...]:
    """Returns the placings of a workload; all of it fast is beside them."""
    return (*OTHERS, *OURS_OF.get(workload, OURS))


def times_of(runs: Sequence[Run]) -> Times:
    """Returns the seconds by workload and placing."""
    found: Times = {}
    for run in runs:
        name, _, times = run["workload"].partition(":")
        if "seconds" in run and times == str(TIMES) and run["share"] in (SHARE, 1.0):
            found.setdefault((name, run["placing"]), []).append(run["seconds"])
    return found


def missing(times: Times, wanted: int) -> dict[str, list[str]]:
    """Returns the placings of each workload that have fewer runs than wanted.

    >>> some = {("lru", placing): [1.0] for placing in ("none", "kernel-default", "emt")}
    >>> missing(some, 1)["lru"]
    ['kernel', 'profile', 'all-fast']
    """
    return {
        name: lacking
        for name in WORKLOADS
        if (
            lacking := [
                placing
                for placing in (*placings_of(name), "all-fast")
                if len(times.get((name, placing), ())) < wanted
            ]
        )
    }


def table(runs: Sequence[Run], wanted: int = RUNS) -> str:
    """Formats the ratios of the medians, and what is missing.

    >>> runs = [
    ...     {"workload": "lru:8", "placing": placing, "share": 0.25, "seconds": seconds}
    ...     for placing, seconds in (("none", 12.0), ("kernel-default", 10.0), ("emt", 11.0))
    ... ]
    >>> lines = table(runs, 1).splitlines()
    >>> lines[2]
    '| lru | tierwise.emt | 1.100 | - | 0.917 | - | 1 |'
    >>> lines[3]
    '| geometric mean of 1 | tierwise.emt | 1.100 | - | 0.917 | - | |'
    >>> lines[-1].startswith("| missing of 1 runs | lru: kernel tiering, tuned 1, heaps by a")
    True
    """
    times = times_of(runs)
    medians = {key: statistics.median(seconds) for key, seconds in times.items()}
    rows = []
    for name in WORKLOADS:
        for placing in placings_of(name)[len(OTHERS) :]:
            if (name, placing) in medians:
                own = medians[name, placing]
                bounds = (medians.get((name, other)) for other in _BOUNDS)
                rows.append((name, placing, [own / bound if bound else None for bound in bounds]))
    rows.sort(key=lambda row: -(row[2][0] or math.inf))
    lines = [HEADER, "|---|---|---|---|---|---|---|"]
    for name, placing, ratios in rows:
        count = len(times[name, placing])
        lines.append(f"| {name} | {HEADINGS[placing]} | {_cells(ratios)} | {count} |")
    for placing in dict.fromkeys(row[1] for row in rows):
        found = [row[2] for row in rows if row[1] == placing]
        means = [_mean([ratios[n] for ratios in found]) for n in range(len(_BOUNDS))]
        title = f"geometric mean of {len(found)}"
        lines.append(f"| {title} | {HEADINGS[placing]} | {_cells(means)} | |")
    lines.append(f"| missing of {wanted} runs | {_lacking(times, wanted)} | | | | | |")
    return "\n".join(lines)


def _lacking(times: Times, wanted: int) -> str:
    """Returns the names of what is missing: placings with their number, and whole workloads."""
    parts, whole = [], []
    for name, placings in missing(times, wanted).items():
        if not any(key[0] == name for key in times):
            whole.append(name)
            continue
        counts = (wanted - len(times.get((name, placing), ())) for placing in placings)
        each = (f"{HEADINGS[p]} {n}" for p, n in zip(placings, counts, strict=True))
        parts.append(f"{name}: {', '.join(each)}")
    if whole:
        parts.append(f"all of {', '.join(whole)}")
    return "; ".join(parts) or "nothing"


_BOUNDS = ("kernel-default", "kernel", "none", "all-fast")


def _mean(ratios: Sequence[float | None]) -> float | None:
    known = [ratio for ratio in ratios if ratio is not None]
    return statistics.geometric_mean(known) if len(known) == len(ratios) else None


def _cells(ratios: Sequence[float | None]) -> str:
    return " | ".join("-" if ratio is None else f"{ratio:.3f}" for ratio in ratios)


def read(results: Path) -> list[Run]:
    """Returns the runs of a file, which need not exist yet."""
    lines = results.read_text("ascii").splitlines() if results.exists() else []
    return [json.loads(line) for line in lines]


def measure(
    results: Path,
    wanted: int,
    names: Sequence[str] = WORKLOADS,
    add: Callable[[Path, Sequence[str]], None] = add_runs,
) -> None:
    """Adds runs until there are so many of each placing of each named workload. A workload whose
    guest fails is left to the next call, and told."""
    for count in range(1, wanted + 1):
        lacking = missing(times_of(read(results)), count)
        for name in names:
            try:
                if name in lacking:
                    add(results, [_word(read(results), name, lacking[name])])
            except SystemExit as error:
                print(f"goals: {name}: {error}", file=sys.stderr)


def _word(runs: Sequence[Run], name: str, placings: Sequence[str]) -> str:
    """Returns the word of lab_times.py for some placings of a workload. With the resident set of an
    earlier run none has everything fast."""
    workload = f"{name}:{TIMES}"
    known = [
        run["resident_mib"]
        for run in runs
        if run["workload"] == workload and run["placing"] == "all-fast"
    ]
    resident = "" if "all-fast" in placings else str(known[0])
    others = [placing for placing in placings if placing != "all-fast"]
    return f"{workload}:{SHARE}:{','.join(others or OTHERS[:1])}:{resident}"


def main(words: Sequence[str]) -> None:
    """Measures, and prints the table or writes it into a document."""
    results, *rest = words
    wanted = int(rest.pop(0)) if rest and rest[0].isdigit() else RUNS
    names = list(itertools.takewhile(lambda word: not word.startswith("--"), rest))
    if unknown := set(names) - set(WORKLOADS):
        sys.exit(f"goals: no workload {min(unknown)}; allowed: {', '.join(WORKLOADS)}")
    rest = rest[len(names) :]
    measure(Path(results), wanted, names or WORKLOADS)
    found = table(read(Path(results)), wanted or RUNS)
    if rest[:1] == ["--into"]:
        document = Path(rest[1])
        document.write_text(replaced_from(HEADER, document.read_text("utf-8"), found), "utf-8")
    else:
        print(found)


if __name__ == "__main__":
    main(sys.argv[1:])
