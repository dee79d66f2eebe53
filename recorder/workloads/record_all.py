#!/usr/bin/env python3
"""Records the programs of traces/ again: record_all.py [NAME...]; without a name, all of them.

record_all.py --list names them; record_all.py --table renews the table in traces/README.md.

Needs redis-server, memcached, zstd, gcc and qemu-user from Debian, cargo, and Python 3 with venv.
Intermediate files (Python packages, graphs, databases, archives) are kept in recorder/build/ for
the next recording. RECORD is the recorder's command (default: tierwise record), TRACES the
directory of the traces (default: traces/). An existing trace is replaced.
"""

import dataclasses
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tarfile
import time
from typing import Callable

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = ROOT / "recorder" / "build"
TRACES = pathlib.Path(os.environ.get("TRACES", ROOT / "traces"))
RECORD = shlex.split(os.environ.get("RECORD", "tierwise record"))
MARKS = BUILD / "marks.fifo"
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PYTHON = BUILD / "venv" / "bin" / "python"
# networkit needs the last two. The versions are fixed, because zstd compresses the packages.
PYTHON_PACKAGES = ("networkit==11.2.2", "networkx==3.6.1", "numpy==2.4.6", "scipy==1.17.1")

# A 32 MiB cache in front of 130 MB would hold a quarter of the program; in front of the 100 GB that
# tiered machines serve it holds a few thousandths. 2 MiB is a sixtieth.
LLC = "2MiB/16"
# With YCSB's 1000 bytes per record, about 130 MB are resident in either store.
RECORDS = 110_000
# MTAT's stores (section 5 and table 1), in sizes that make about 130 MB as well: Redis holds a
# record as a hash of ten fields; Memcached holds items of 4 KB with keys of 100 bytes, which
# Mutilate draws uniformly.
MTAT_REDIS = ("--records", 52_000, "--fields", 10)
MTAT_MEMCACHED = ("--records", 29_500, "--record-bytes", 4096, "--key-bytes", 100, "--uniform")
# 2^18 vertices with 16 edges each, every edge stored at both ends in 8 bytes: 64 MiB, beside the
# edge list.
GRAPH_SCALE = 18
# Branches of 100 000 accounts: a bank of about 120 MB.
BANK_SCALE = 8
# Nodes on each side of the road grid: 62 500 nodes of CPython objects, about 100 MB.
GRID_SIDE = 250
# Windows that remain of a load phase, which has many and of which only the first touches matter.
LOAD_WINDOWS = 10
# XSBench's 68 nuclides with this many energies each (its small problem has 11 303): 130 MiB, nine
# tenths of it the index of the unionized grid.
GRIDPOINTS = 6200
# Limit of the time from the recorder's start to the marks FIFO.
RECORDER_START_S = 30


@dataclasses.dataclass(frozen=True)
class Recording:
    """A trace's recording: the length of its windows, and its command."""

    window: int
    program: Callable
    parameters: tuple
    # Instructions after which the program is stopped; None lets it finish.
    limit: int | None = None


def recorder(name, recording, command):
    """Starts recording `command` into the trace `name`."""
    limit = ["--max-instructions", str(recording.limit)] if recording.limit else []
    trace = TRACES / f"{name}.twt"
    MARKS.unlink(missing_ok=True)
    # Paths are relative, because the trace contains the command and is used on other machines.
    words = [
        os.path.relpath(word, HERE) if isinstance(word, pathlib.Path) else str(word)
        for word in command
    ]
    return subprocess.Popen(
        [
            *RECORD,
            "-o",
            trace,
            "--force",
            "--window",
            str(recording.window),
            "--llc",
            LLC,
            *limit,
            "--marks",
            MARKS,
            "--",
            *words,
        ],
        cwd=HERE,
    )


def wait(process, name):
    """Waits for a recorder; its failure ends the script."""
    if process.wait() != 0:
        sys.exit(f"record_all.py: {name}: the recorder exited with {process.returncode}")


def await_marks(process, name):
    """Waits until the recorder has created its FIFO."""
    deadline = time.monotonic() + RECORDER_START_S
    while not MARKS.is_fifo():
        if process.poll() is not None or time.monotonic() > deadline:
            sys.exit(f"record_all.py: {name}: the recorder made no FIFO {MARKS}")
        time.sleep(0.05)


def record_server(name, recording, command, store, port):
    """Records a store while the YCSB client loads and drives it; the client ends the store."""
    run(["cargo", "build", "--release", "-p", "ycsb-client"], cwd=ROOT)
    workload, operations, *records = recording.parameters
    process = recorder(name, recording, command)
    await_marks(process, name)
    run(
        [
            TARGET / "release" / "ycsb-client",
            "--store",
            store,
            "--port",
            port,
            "--workload",
            workload,
            *(records or ("--records", RECORDS)),
            "--operations",
            operations,
            "--marks",
            MARKS,
        ]
    )
    wait(process, name)


def redis(name, recording):
    """Records redis-server without persistence under a YCSB workload."""
    command = [
        "redis-server",
        "--port",
        "7001",
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
    ]
    record_server(name, recording, command, "redis", 7001)


def memcached(name, recording):
    """Records memcached with memory for every record under a YCSB workload."""
    # With -A the client can end the server. There is one worker thread, because there is one
    # connection.
    command = [
        "memcached",
        "-p",
        "7002",
        "-U",
        "0",
        "-l",
        "127.0.0.1",
        "-m",
        "1024",
        "-A",
        "-t",
        "1",
        "-u",
        "nobody",
    ]
    record_server(name, recording, command, "memcached", 7002)


def graph(name, recording):
    """Records one of GAP's kernels in networkit."""
    kernel, kind, trials = recording.parameters
    edges = made(
        f"{kind}{GRAPH_SCALE}.npy",
        lambda out: run([python(), "graph/prepare.py", kind, GRAPH_SCALE, out]),
    )
    wait(recorder(name, recording, [python(), "graph/run.py", kernel, edges, trials]), name)


def sqlite(name, recording):
    """Records TPC-B transactions on SQLite."""
    where, transactions = recording.parameters
    bank = made("bank.db", lambda out: run([python(), "sqlite/prepare.py", BANK_SCALE, out]))
    # A run changes its file, so each run gets a copy with the same rows.
    working = shutil.copyfile(bank, BUILD / "bank-working.db")
    wait(recorder(name, recording, [python(), "sqlite/run.py", where, working, transactions]), name)


def search(name, recording):
    """Records a search in NetworkX."""
    kind, queries = recording.parameters
    wait(recorder(name, recording, [python(), "search/run.py", kind, GRID_SIDE, queries]), name)


def xsbench(name, recording):
    """Records look-ups of cross sections in C."""
    (lookups,) = recording.parameters
    program = made(
        "xsbench", lambda out: run(["cc", "-O2", "-std=gnu11", "-o", out, "xsbench/xsbench.c"])
    )
    wait(recorder(name, recording, [program, GRIDPOINTS, lookups]), name)


def zstd(name, recording):
    """Records zstd with a 128 MiB window on Python packages; it has no load phase."""
    archive = made("packages.tar", archive_packages)
    command = ["zstd", "--long=27", "--single-thread", "-q", "-f", archive, "-o", BUILD / "out.zst"]
    process = recorder(name, recording, command)
    await_marks(process, name)
    MARKS.write_text("run\n")
    wait(process, name)


def run(command, **options):
    """Runs a command that must succeed."""
    words = [str(word) for word in command]
    return subprocess.run(words, check=True, **{"cwd": HERE, **options})


def python():
    """Returns the interpreter of an environment with the packages."""
    if not PYTHON.exists():
        run([sys.executable, "-m", "venv", PYTHON.parents[1]])
        run([PYTHON, "-m", "pip", "install", "-q", *PYTHON_PACKAGES])
    return PYTHON


def made(file_name, make):
    """Returns the file in recorder/build; `make(path)` creates it the first time."""
    path = BUILD / file_name
    if not path.exists():
        # The suffix is the same, because numpy appends .npy to other names.
        half_made = BUILD / f"half-made-{file_name}"
        make(half_made)
        half_made.rename(path)
    return path


def archive_packages(out):
    """Makes a tar of two of the installed packages that is the same on every machine."""
    (packages,) = python().parents[1].glob("lib/python*/site-packages")

    def plain(member):
        member.mtime = member.uid = member.gid = 0
        member.uname = member.gname = ""
        return None if "__pycache__" in member.name else member

    with tarfile.open(out, "w") as archive:
        for package in ("numpy", "numpy.libs", "scipy", "scipy.libs"):
            archive.add(packages / package, package, filter=plain)


M = 1_000_000
RECORDINGS = {
    "redis-ycsb-a": Recording(20 * M, redis, ("a", 300_000)),
    "redis-ycsb-b": Recording(20 * M, redis, ("b", 300_000)),
    "redis-ycsb-c": Recording(20 * M, redis, ("c", 300_000)),
    "redis-ycsb-d": Recording(20 * M, redis, ("d", 300_000)),
    "redis-ycsb-f": Recording(20 * M, redis, ("f", 200_000)),
    "redis-ycsb-w": Recording(20 * M, redis, ("w", 300_000)),
    "memcached-ycsb-a": Recording(20 * M, memcached, ("a", 250_000)),
    "memcached-ycsb-b": Recording(20 * M, memcached, ("b", 250_000)),
    "memcached-ycsb-c": Recording(20 * M, memcached, ("c", 250_000)),
    "memcached-ycsb-d": Recording(20 * M, memcached, ("d", 250_000)),
    "memcached-ycsb-f": Recording(20 * M, memcached, ("f", 160_000)),
    "memcached-ycsb-w": Recording(20 * M, memcached, ("w", 150_000)),
    "mtat/redis": Recording(20 * M, redis, ("c", 150_000, *MTAT_REDIS)),
    "mtat/memcached": Recording(20 * M, memcached, ("c", 150_000, *MTAT_MEMCACHED)),
    "graph-bfs-kron": Recording(20 * M, graph, ("bfs", "kron", 8)),
    "graph-bfs-urand": Recording(20 * M, graph, ("bfs", "urand", 6)),
    "graph-sssp-kron": Recording(20 * M, graph, ("sssp", "kron", 2)),
    "graph-sssp-urand": Recording(20 * M, graph, ("sssp", "urand", 2), limit=4200 * M),
    "graph-pr-kron": Recording(20 * M, graph, ("pr", "kron", 3)),
    "graph-pr-urand": Recording(20 * M, graph, ("pr", "urand", 3)),
    "graph-cc-kron": Recording(20 * M, graph, ("cc", "kron", 10)),
    "graph-cc-urand": Recording(20 * M, graph, ("cc", "urand", 7)),
    "graph-bc-kron": Recording(20 * M, graph, ("bc", "kron", 2), limit=3000 * M),
    "graph-bc-urand": Recording(20 * M, graph, ("bc", "urand", 1), limit=3400 * M),
    "graph-tc-kron": Recording(20 * M, graph, ("tc", "kron", 1), limit=3200 * M),
    "graph-tc-urand": Recording(20 * M, graph, ("tc", "urand", 1), limit=3400 * M),
    "sqlite-memory": Recording(20 * M, sqlite, ("memory", 20_000)),
    "sqlite-file": Recording(20 * M, sqlite, ("file", 20_000)),
    "xsbench": Recording(20 * M, xsbench, (500_000,)),
    "zstd-long": Recording(50 * M, zstd, ()),
    "networkx-astar": Recording(25 * M, search, ("astar", 8)),
    "networkx-dijkstra": Recording(25 * M, search, ("dijkstra", 3)),
}


PACKAGE_VERSIONS = """
import importlib.metadata, sqlite3, sys
print("Python", sys.version.split()[0], "with SQLite", sqlite3.sqlite_version, end="")
for package in ("networkit", "networkx", "numpy", "scipy"):
    print(",", package, importlib.metadata.version(package), end="")
"""


def versions():
    """Returns the programs' versions, one line per program."""
    commands = (
        ["redis-server", "--version"],
        ["memcached", "--version"],
        ["zstd", "--version"],
        [python(), "-c", PACKAGE_VERSIONS],
        ["cc", "--version"],
        ["qemu-x86_64", "--version"],
    )
    return [
        run(command, capture_output=True, text=True).stdout.split("\n")[0].strip()
        for command in commands
    ]


def write_table():
    """Renews the text between the two markers of traces/README.md."""
    readme = TRACES / "README.md"
    start_mark, end = "<!-- record_all.py --table -->\n", "<!-- end of the table -->\n"
    before, rest = readme.read_text().split(start_mark)
    after = rest.split(end)[1]
    table = run(
        ["cargo", "run", "-q", "--release", "--bin", "trace-table", TRACES],
        cwd=ROOT,
        capture_output=True,
        text=True,
    ).stdout
    lines = "".join(f"- {version}\n" for version in versions())
    half_written = readme.with_suffix(".tmp")
    half_written.write_text(f"{before}{start_mark}{lines}\n{table}{end}{after}")
    half_written.rename(readme)


def main():
    if sys.argv[1:] == ["--list"]:
        print("\n".join(RECORDINGS))
        return
    if sys.argv[1:] == ["--table"]:
        write_table()
        return
    names = sys.argv[1:] or list(RECORDINGS)
    for name in names:
        if name not in RECORDINGS:
            sys.exit(f"record_all.py: nothing is called {name!r}; see record_all.py --list")
    BUILD.mkdir(parents=True, exist_ok=True)
    (TRACES / "mtat").mkdir(parents=True, exist_ok=True)
    for name in names:
        print(f"recording {name}", flush=True)
        RECORDINGS[name].program(name, RECORDINGS[name])
        run(
            [
                "cargo",
                "run",
                "-q",
                "--release",
                "--bin",
                "coarsen-load",
                TRACES / f"{name}.twt",
                LOAD_WINDOWS,
            ],
            cwd=ROOT,
        )


if __name__ == "__main__":
    main()
