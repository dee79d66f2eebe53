"""Measures run times with a part of the resident set fast, in the lab's timed guest.

`lab_times.py RESULTS [WORKLOAD[:TIMES[:SHARE[:PLACING,...[:RESIDENT]]]]...]` adds a JSON line per
run to the file RESULTS, and prints a table in Markdown of all runs in it. It compares the placings
of lab/__main__.py, each with 25, 50 and 75 % fast, with the run time with everything fast. TIMES
multiplies the amount of work; with SHARE only that part is fast, with PLACING only those run; with
RESIDENT, the program's MiB of an earlier run, none has everything fast. Several calls with one file
repeat the runs: the table has the median, and all runs, slowest first. Without a workload it only
prints; with `--into DOCUMENT` it replaces the table in a document. It needs `make lab` and
python/emt/lab.sh first, and an hour of an idle machine per call.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import timed_guest

HERE = Path(__file__).resolve().parent
#: Workloads of workloads.py, and the packages that they need in the guest.
GRAPHS = ("astar", "bellman", "bfs", "bfs-rand", "bidirectional", "kc", "lc", "sp")
PACKAGES_OF: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(GRAPHS, ("networkx",)),
    **dict.fromkeys(("sql1", "sql2", "sql3"), ("sqlalchemy",)),
    "dataframe": ("pandas",),
    "embedding": ("numpy",),
    "service": ("flask",),
    "lru": (),
}
GUEST_PYTHON = "3.13"
HEADER = "| workload | fast | placing | over all fast | median | runs, slowest first |"
HEADINGS = {
    "none": "no tiering",
    "kernel-default": "kernel tiering",
    "kernel": "kernel tiering, tuned",
    "emt": "tierwise.emt",
    "heaps": "heaps",
    "heaps-emt": "heaps and tierwise.emt",
    "heaps-wrong": "heaps the wrong way round, and tierwise.emt",
    "profile": "heaps by a profile",
    "all-fast": "all of it fast",
}


def table(runs: Sequence[dict[str, Any]]) -> str:
    """Formats the run times, and the slowdowns of their medians against everything fast.

    >>> run = {"workload": "w:1", "placing": "all-fast", "share": 1.0, "seconds": 10.0}
    >>> slow = [{**run, "placing": "none", "share": 0.5, "seconds": s} for s in (14.0, 16.0, 15.0)]
    >>> print(table([run, *slow]).splitlines()[2])
    | w:1 | 50% | no tiering | 1.500 | 15.00 s | 3: 16.00, 15.00, 14.00 |
    """
    lines = [HEADER, "|---|---|---|---|---|---|"]
    found: dict[tuple[str, float, str], list[float]] = {}
    for run in runs:
        if "seconds" in run:
            key = (run["workload"], run["share"], run["placing"])
            found.setdefault(key, []).append(run["seconds"])
    order = [*HEADINGS]
    for workload, share, placing in sorted(
        found, key=lambda key: (key[0], key[1], order.index(key[2]))
    ):
        seconds = found[workload, share, placing]
        median = statistics.median(seconds)
        bound = statistics.median(found[workload, 1.0, "all-fast"])
        each = ", ".join(f"{one:.2f}" for one in sorted(seconds, reverse=True))
        lines.append(
            f"| {workload} | {share:.0%} | {HEADINGS[placing]} | {median / bound:.3f} | "
            f"{median:.2f} s | {len(seconds)}: {each} |"
        )
    return "\n".join(lines)


def replaced(document: str, new: str) -> str:
    r"""Returns a document with another table in the place of its own.

    >>> print(replaced(f"Before.\n\n{HEADER}\n|---|\n| old |\n\nAfter.", "| new |"))
    Before.
    <BLANKLINE>
    | new |
    <BLANKLINE>
    After.
    """
    return replaced_from(HEADER, document, new)


def replaced_from(header: str, document: str, new: str) -> str:
    """Returns a document with something else in the place of the table of a header."""
    start = document.index(header)
    return document[:start] + new + document[document.index("\n\n", start) :]


@contextlib.contextmanager
def files_for(words: Sequence[str]) -> Iterator[dict[str, Path]]:
    """Yields the files that the workloads need in the guest."""
    names = {word.split(":")[0] for word in words} & PACKAGES_OF.keys()
    if not names:
        yield {}
        return
    with tempfile.TemporaryDirectory() as directory:
        packages = sorted({package for name in names for package in PACKAGES_OF[name]})
        options = ("--quiet", "--target", directory, "--python-version", GUEST_PYTHON)
        pip = (sys.executable, "-m", "pip", "install", "--only-binary=:all:")
        if packages:
            subprocess.run([*pip, *options, *packages], check=True)
        programs = {name: HERE / name for name in ("workloads.py", "served.py")}
        yield {"packages": Path(directory), **programs}


def add_runs(results: Path, words: Sequence[str]) -> None:
    """Runs what the words name, and adds each run to the file as it comes."""
    with results.open("a", encoding="ascii") as lines, files_for(words) as files:
        timed_guest.run("emtbench", words, files, lambda line: print(line, file=lines, flush=True))


def main(results: Path, words: Sequence[str]) -> None:
    """Runs what the words name, and prints the table or writes it into a document."""
    if words and words[0] != "--into":
        add_runs(results, words)
    text = results.read_text(encoding="ascii")
    found = table([json.loads(line) for line in text.splitlines()])
    if words and words[0] == "--into":
        document = Path(words[1])
        document.write_text(replaced(document.read_text("utf-8"), found), "utf-8")
    else:
        print(found)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
