"""Measures what the hooks of the heaps cost a program that uses no heap: `heap_cost.py [PAIRS
[BENCHMARK...]]` prints a table in Markdown.

The benchmarks are pyperformance's that allocate most. A pair is two processes in turn, with and
without `emt.segregate()`, whose order alternates; their time is the CPU time of the same number of
loops, the least of several, since other work of the machine only adds to it. It needs
`pip install pyperformance`. With TIERWISE_EMT_BENCH_PROFILE the hooks also look up sites.

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
#: Layouts of the interpreter's pools, and the variable that has a process's.
LAYOUTS, LAYOUT = 3, "TIERWISE_EMT_BENCH_LAYOUT"
HERE = Path(__file__).resolve()


def run_one(name: str, hooked: bool) -> float:
    """Runs a benchmark in a process of its own; returns the seconds of CPU time of a value."""
    return sum(map(float, process(name, hooked, VALUES, [], {}).stdout.split()))


def instructions_of(name: str, hooked: bool, layout: int) -> int:
    """Returns the instructions of a value of a benchmark."""
    tool = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    more = {"PYTHONMALLOC": "pymalloc", LAYOUT: str(layout)}
    counts = []
    for values in (1, 2):
        done = process(name, hooked, values, tool, more)
        (line,) = (line for line in done.stderr.splitlines() if "I   refs:" in line)
        counts.append(int(line.rpartition(":")[2].replace(",", "")))
    return counts[1] - counts[0]


def process(
    name: str, hooked: bool, values: int, before: list[str], more: dict[str, str]
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
            str(int(hooked)),
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


def in_process(script: Path, loops: int, hooked: bool, count: int, words: list[str]) -> None:
    """Runs a script with a Runner that only times its functions, and prints the least value."""
    import time

    if hooked:
        import tierwise.emt as emt

        emt.segregate(profile=os.environ.get("TIERWISE_EMT_BENCH_PROFILE"))
    else:
        # The same modules, so that the process differs in the hooks only.
        import tierwise.emt  # noqa: F401
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


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        script, loops, hooked, values, *words = sys.argv[2:]
        in_process(Path(script), int(loops), hooked == "1", int(values), words)
    elif sys.argv[1:2] == ["instructions"]:
        given = sys.argv[2:]
        number = int(given.pop(0)) if given and given[0].isdigit() else LAYOUTS
        count(number, given or list(BENCHMARKS))
    else:
        given = sys.argv[1:]
        main(int(given[0]) if given else 9, given[1:] or list(BENCHMARKS))
