"""Measures what tierwise.emt costs programs that gain nothing: `heap_cost.py [PAIRS
[BENCHMARK...]]` prints what the hooks of the heaps cost a program that uses no heap, as a table in
Markdown.

The benchmarks are pyperformance's that allocate most. A pair is two processes in turn, with and
without `emt.segregate()`, whose order alternates; their time is the CPU time of the same number of
loops, the least of several, since other work of the machine only adds to it. It needs
`pip install pyperformance`. With TIERWISE_EMT_BENCH_PROFILE the hooks also look up sites.

`heap_cost.py tracking [PAIRS [BENCHMARK...]]` measures tracking at its defaults instead, without a
slow node: the CPU time of a process from before the package's import to the end of tracking, with
tracking's thread, against that of one without the package; some five seconds each. It prints each
pair, worst first, and what tracking itself counts.

`heap_cost.py instructions [LAYOUTS] [BENCHMARK...]` counts instructions instead, under valgrind's
cachegrind: other programs do not change them. Those of a process that computes one value are taken
from those of one that computes two. They depend on the layout of the interpreter's pools: where a
benchmark's objects just fill a pool, each object makes and ends one. So each of several layouts has
a pair, and the median counts.
"""

from __future__ import annotations

import importlib
import os
import statistics
import subprocess
import sys
from pathlib import Path

#: Benchmark: words after its name, and loops of one value, which take some fifty milliseconds.
BENCHMARKS: dict[str, tuple[tuple[str, ...], int]] = {
    "deepcopy": ((), 120),
    "float": ((), 1),
    "json_loads": ((), 120),
    "comprehensions": ((), 2500),
    "raytrace": ((), 1),
    "deltablue": ((), 20),
    "coroutines": ((), 3),
    "unpack_sequence": ((), 3000),
    "hexiom": ((), 8),
    "richards": ((), 1),
}
#: Values of a process; the least counts. Short ones are seldom interrupted by other programs.
VALUES = 25
#: Values of a process that is tracked: five seconds, as a program has first to earn the import.
TRACKED_VALUES = 100
#: Layouts of the interpreter's pools, and the variable that has a process's.
LAYOUTS, LAYOUT = 3, "TIERWISE_EMT_BENCH_LAYOUT"
HERE = Path(__file__).resolve()


def run_one(name: str, hooked: bool) -> float:
    """Runs a benchmark in a process of its own; returns the seconds of CPU time of a value."""
    how = "hooks" if hooked else "modules"
    return sum(map(float, process(name, how, VALUES, [], {}).stdout.split()))


def run_tracked(name: str, how: str) -> tuple[float, float]:
    """Runs a benchmark in a process of its own; returns its seconds of CPU time, and the share of
    them that tracking counts."""
    words = process(name, how, TRACKED_VALUES, [], {}).stdout.split()
    return float(words[-2]), float(words[-1])


def instructions_of(name: str, hooked: bool, layout: int) -> int:
    """Returns the instructions of a value of a benchmark."""
    tool = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    more = {"PYTHONMALLOC": "pymalloc", LAYOUT: str(layout)}
    counts = []
    for values in (1, 2):
        done = process(name, "hooks" if hooked else "modules", values, tool, more)
        (line,) = (line for line in done.stderr.splitlines() if "I   refs:" in line)
        counts.append(int(line.rpartition(":")[2].replace(",", "")))
    return counts[1] - counts[0]


def process(
    name: str, how: str, values: int, before: list[str], more: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Runs a benchmark in a process of its own, by the words `before` if there are some."""
    words, loops = BENCHMARKS[name]
    packages = importlib.import_module("pyperformance")
    script = (
        Path(packages.__file__ or "").parent
        / "data-files/benchmarks"
        / f"bm_{name}"
        / "run_benchmark.py"
    )
    done = subprocess.run(
        [
            *before,
            sys.executable,
            str(HERE),
            "--one",
            str(script),
            str(loops),
            how,
            str(values),
            *words,
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "1", **more},
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"{name}: {done.stdout}{done.stderr}")
    return done


def count(layouts: int, names: list[str]) -> None:
    """Counts the instructions of all benchmarks and prints the table."""
    print("| benchmark | instructions of a value | more with the hooks, median | by layout |")
    print("|---|---|---|---|")
    for name in names:
        plains, costs = [], []
        for layout in range(layouts):
            plain, hooked = (instructions_of(name, how, layout) for how in (False, True))
            plains.append(plain)
            costs.append(hooked / plain - 1)
        each = ", ".join(f"{cost:.2%}" for cost in costs)
        print(
            f"| {name} | {statistics.median(plains) / 1e6:,.1f} million | "
            f"{statistics.median(costs):.2%} | {each} |",
            flush=True,
        )


def main(pairs: int, names: list[str]) -> None:
    """Runs all pairs and prints the table."""
    print("| benchmark | cost of the hooks, median | quartiles |")
    print("|---|---|---|")
    medians = []
    for name in names:
        costs = []
        for pair in range(pairs):
            order = (True, False) if pair % 2 else (False, True)
            took = {hooked: run_one(name, hooked) for hooked in order}
            costs.append(took[True] / took[False] - 1.0)
        low, middle, high = statistics.quantiles(costs, n=4)
        medians.append(middle)
        print(f"| {name} | {middle:.2%} | {low:.2%}, {high:.2%} |", flush=True)
    print(f"| mean of the medians | {statistics.mean(medians):.2%} | |")


def track(pairs: int, names: list[str]) -> None:
    """Runs all pairs with and without tracking, and prints the table."""
    print("| benchmark | cost of tracking, median | pairs, worst first | counted by tracking |")
    print("|---|---|---|---|")
    medians = []
    for name in names:
        costs, counted = [], []
        for pair in range(pairs):
            order = ("tracking", "none") if pair % 2 else ("none", "tracking")
            took = {how: run_tracked(name, how) for how in order}
            costs.append(took["tracking"][0] / took["none"][0] - 1.0)
            counted.append(took["tracking"][1])
        medians.append(statistics.median(costs))
        each = ", ".join(f"{cost:.2%}" for cost in sorted(costs, reverse=True))
        print(
            f"| {name} | {medians[-1]:.2%} | {each} | {statistics.median(counted):.2%} |",
            flush=True,
        )
    print(f"| mean of the medians | {statistics.mean(medians):.2%} | | |")


def prepare(how: str) -> None:
    """Sets the hooks, starts tracking, or only imports the modules, so that a process with the
    hooks differs in these only. With "none" it imports nothing."""
    if how == "none":
        return
    import tierwise.emt as emt

    if how == "hooks":
        emt.segregate(profile=os.environ.get("TIERWISE_EMT_BENCH_PROFILE"))
    elif how == "tracking":
        emt.start()


def finish(how: str) -> float:
    """Ends tracking; returns the share of the program's time that it counts."""
    if how != "tracking":
        return 0.0
    import tierwise.emt as emt

    return emt.end().overhead


def in_process(script: Path, loops: int, how: str, count: int, words: list[str]) -> None:
    """Runs a script with a Runner that only times its functions, and prints the least value; then
    the CPU time of all, and the share that tracking counts."""
    import time

    start = time.process_time()
    prepare(how)
    import pyperf

    # Some blocks more of each size class of pymalloc; numbers that fit no pool's evenly.
    blocks = range(7 * int(os.environ.get(LAYOUT, "0")))
    globals()["_kept"] = [bytes(size) for size in range(0, 480, 16) for _ in blocks]

    def least(function: object, *args: object, counted: bool) -> None:
        values = []
        for _ in range(count):
            began = time.process_time()
            if counted:
                function(loops, *args)  # type: ignore[operator]
            else:
                for _ in range(loops):
                    function(*args)  # type: ignore[operator]
            values.append(time.process_time() - began)
        print(min(values))

    class Runner(pyperf.Runner):  # type: ignore[misc]
        """Stands in for pyperf's, which would start processes of its own."""

        def bench_func(self, _: str, function: object, *args: object, **__: object) -> None:
            least(function, *args, counted=False)

        def bench_time_func(self, _: str, function: object, *args: object, **__: object) -> None:
            least(function, *args, counted=True)

    pyperf.Runner = Runner
    sys.argv = [str(script), *words]
    sys.path[0] = str(script.parent)
    import runpy

    runpy.run_path(str(script), run_name="__main__")
    if how in ("none", "tracking"):
        counted = finish(how)
        print(time.process_time() - start, counted)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        script, loops, how, values, *words = sys.argv[2:]
        in_process(Path(script), int(loops), how, int(values), words)
    elif sys.argv[1:2] == ["tracking"]:
        given = sys.argv[2:]
        pairs = int(given.pop(0)) if given and given[0].isdigit() else 5
        track(pairs, given or list(BENCHMARKS))
    elif sys.argv[1:2] == ["instructions"]:
        given = sys.argv[2:]
        number = int(given.pop(0)) if given and given[0].isdigit() else LAYOUTS
        count(number, given or list(BENCHMARKS))
    else:
        given = sys.argv[1:]
        main(int(given[0]) if given else 9, given[1:] or list(BENCHMARKS))
