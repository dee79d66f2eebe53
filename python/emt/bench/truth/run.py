"""Counts the true accesses of the workloads' objects: `python run.py RESULTS [WORKLOAD...]`.

Each workload runs twice in QEMU's user-mode emulation, with other inputs and another hash seed; the
second run is scored (analyse.py). One JSON file per workload goes to the directory RESULTS; a
workload that has one is left out. It needs qemu-user (apt), a C compiler and CPython 3.13 with its
headers and the packages of pyproject.toml's extra "bench", and takes about half an hour.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from truth.analyse import figures

RECORDER = HERE.parents[3] / "recorder"
SCALE = 0.1
#: A CPU's part of the last-level cache is one in one to two hundred of the paper's resident sets;
#: these have 40 to 200 MB.
CACHE_BYTES, CACHE_WAYS = 512 << 10, 16
#: Steps per window: about a third of a second without emulation, a step at least.
STEPS = {
    "astar": 2,
    "bellman": 1,
    "bfs": 3,
    "bfs-rand": 3,
    "bidirectional": 2,
    "kc": 1,
    "lc": 1,
    "sp": 5,
    "sql1": 15,
    "sql2": 15,
    "sql3": 15,
    "dataframe": 60,
    "embedding": 40,
    "service": 40,
    "lru": 100,
}
WARNINGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]


def build(directory: Path) -> None:
    """Compiles the plugin and the extension."""
    include = sysconfig.get_path("include")
    subprocess.run(
        ["gcc", *WARNINGS, "-fvisibility=hidden", f"-I{RECORDER}/common", f"-I{RECORDER}/plugin"]
        + ["-o", directory / "plugin.so", HERE / "plugin.c"],
        check=True,
    )
    subprocess.run(
        ["gcc", *WARNINGS, "-Wno-unused-parameter", f"-I{include}", f"-I{include}/internal"]
        + ["-o", directory / "truth_objects.so", HERE / "objects.c"],
        check=True,
    )


def emulate(directory: Path, words: list[str], **settings: str) -> None:
    """Runs a Python program of this directory in the emulator, with the plugin.

    Raises:
        CalledProcessError: It failed.
    """
    plugin = f"{directory}/plugin.so,cache_bytes={CACHE_BYTES},cache_ways={CACHE_WAYS}"
    environment = os.environ | {
        "TRUTH_BUILD": str(directory),
        "PYTHONDONTWRITEBYTECODE": "1",
        # The hook expects one thread.
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        **settings,
    }
    subprocess.run(
        ["qemu-x86_64", "-plugin", plugin, sys.executable, str(HERE / words[0]), *words[1:]],
        env=environment,
        check=True,
    )


def count(directory: Path, workload: str, seed: int) -> Path:
    """Runs a workload in the emulator, and returns the prefix of its files."""
    prefix = directory / f"{workload}-{seed}"
    emulate(
        directory,
        ["program.py", workload, str(STEPS[workload]), str(prefix)],
        TIERWISE_EMT_BENCH_SCALE=str(SCALE),
        TIERWISE_EMT_BENCH_SEED=str(seed),
        PYTHONHASHSEED=str(100 + seed),
    )
    return prefix


def main(results: Path, workloads: list[str]) -> None:
    """Runs what has no result yet."""
    results.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=os.environ.get("TRUTH_SCRATCH")) as scratch:
        directory = Path(scratch)
        build(directory)
        emulate(directory, ["known.py", str(directory / "known")])
        for workload in workloads or STEPS:
            result = results / f"{workload}.json"
            if result.exists():
                continue
            learnt, scored = (count(directory, workload, seed) for seed in (1, 2))
            found = figures(learnt, scored)
            part = result.with_suffix(".part")
            part.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            part.rename(result)
            print(workload, json.dumps(found["caught"]), flush=True)
            for file in directory.glob(f"{workload}-*"):
                file.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
