#!/usr/bin/env python3
"""Writes scenarios/recorded/NAME.toml for every traces/NAME.twt.

A recording has about a second of a program, and policies act once per second. There are two ways to
make a run of minutes from it:

- A server whose requests are drawn from a fixed distribution (YCSB A, B, C, F and W, TPC-B)
  continues unchanged: its run phase is looped at its own speed.
- A program with a course (graph kernels, searches, the compressor, and YCSB D, whose records keep
  growing) must not start again: its windows are stretched, as if the program had a larger problem
  by the same factor.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Two and a half minutes: 150 wakes of a daemon that wakes every second, seven passes over 20,000
# pages at 1024 a second.
SECONDS = 150
SUMMARY = {
    "redis": "Redis serving YCSB {what}, a third of it in fast memory",
    "memcached": "Memcached serving YCSB {what}, a third of it in fast memory",
    "graph": "{what}, a third of it in fast memory",
    "sqlite": "SQLite under TPC-B transactions, database {what}, a third of it in fast memory",
    "networkx": "A NetworkX {what} search in CPython, a third of it in fast memory",
    "xsbench": "XSBench's cross-section look-ups, a third of it in fast memory",
    "zstd": "zstd with a 128 MiB window, a third of it in fast memory",
}
KERNELS = {
    "bc": "Betweenness centrality",
    "bfs": "Breadth-first search",
    "cc": "Connected components",
    "pr": "PageRank",
    "sssp": "Shortest paths",
    "tc": "Triangle counting",
}
GRAPHS = {"kron": "a Kronecker graph", "urand": "a uniform random graph"}


def summary(name):
    program, *rest = name.split("-")
    if program == "graph":
        what = f"{KERNELS[rest[0]]} on {GRAPHS[rest[1]]}"
    elif program in ("redis", "memcached"):
        what = rest[-1].upper()
    elif program == "sqlite":
        what = {"memory": "in memory", "file": "in a file"}[rest[0]]
    elif not rest:
        what = ""
    else:
        what = {"astar": "A*", "dijkstra": "Dijkstra"}.get(rest[0], rest[0])
    return SUMMARY[program].format(what=what)


def loops_at_its_own_speed(name):
    return name.startswith(("sqlite", "xsbench")) or ("ycsb" in name and not name.endswith("-d"))


def text(name, merge, dilation, loops):
    ends = "ycsb" in name
    lines = [
        f'name = "{name}"',
        f'summary = "{summary(name)}"',
        "",
        "[machine]",
        'preset = "dram-cxl"',
        "fast_share = 0.3333",
        "",
        "[[workload]]",
        f'name = "{name}"',
        f'trace = "../../traces/{name}.twt"',
        'measure_from = "run"',
        *(['measure_to = "end"'] if ends else []),
        f"merge = {merge}",
        f"dilation = {dilation}",
        f"loops = {loops}",
    ]
    return "\n".join(lines) + "\n"


def run_seconds(tierwise, name):
    """Returns the duration of one run phase in seconds, with first-touch placement."""
    directory = ROOT / "scenarios" / "recorded"
    with tempfile.NamedTemporaryFile("w", suffix=".toml", dir=directory) as file:
        file.write(text(name, 10, 1, 1))
        file.flush()
        out = subprocess.run(
            [tierwise, "simulate", file.name, "--policy", "static", "--interval", "100ms"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    return json.loads(out.splitlines()[-1])["time_seconds"]


def main():
    tierwise = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "target/release/tierwise")
    directory = ROOT / "scenarios" / "recorded"
    directory.mkdir(parents=True, exist_ok=True)
    for trace in sorted((ROOT / "traces").glob("*.twt")):
        name = trace.stem
        once = run_seconds(tierwise, name)
        times = max(1, round(SECONDS / once))
        if loops_at_its_own_speed(name):
            # A few tenths of a second: shorter than any policy's interval, and long enough for an
            # access to every hot page.
            body = text(name, 30, 1, times)
        else:
            # Some tens of seconds after stretching, so that a phase lasts longer than a policy's
            # detection of it.
            body = text(name, 8, times, 1)
        (directory / f"{name}.toml").write_text(body)
        print(f"{name}: once {once:.1f} s, {times} times")


if __name__ == "__main__":
    main()
