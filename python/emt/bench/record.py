"""Records the workloads of EMT's table 3 with their objects: `python record.py [WORKLOAD...]`.

One trace per workload goes to traces/emt; one that is there is left out. Each has the load phase in
about ten windows and then a billion instructions or more of the program's steps. It needs qemu-user
(apt), cargo, the recorder (`make -C recorder`), `tierwise` in PATH (or TIERWISE), and CPython 3.13
with the packages of pyproject.toml's extra "bench". Each takes a minute of CPU time.

In the emulator it is the program itself: `python record.py --step WORKLOAD`.
"""

from __future__ import annotations

import importlib
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
TRACES = ROOT / "traces" / "emt"
TIERWISE = shlex.split(os.environ.get("TIERWISE", "tierwise"))
#: Sizes of workloads.py: graphs of 10,000 nodes, databases of 8,000 rows, so that a trace is small.
SCALE = 0.04
#: A batch of inserts has 5,000 rows, which at this size fill a database of SQL1 at once.
SQL_SCALE = 0.02
#: Programs of 40 to 60 MB behind 256 KiB are as the paper's of 5 GB behind 24 MB.
LLC = "256KiB/16"
#: 10 ms of one core. A window is a sample of EMT's.
WINDOW = 10_000_000
#: Instructions after which a program is stopped: its load phase and the windows below.
LIMITS = {"sql1": 4_400_000_000, "sql2": 4_600_000_000, "sql3": 5_400_000_000}
LIMIT = 2_100_000_000
#: Windows that remain of a load phase, of which only the first touches matter, and of the run.
LOAD_WINDOWS, RUN_WINDOWS = 10, 60
#: As many parents to a row as at full size; workloads.py has the same number at every size, and to
#: make those of SQL2 would take four billion instructions.
SQL = {
    "sql2": {"parents": round(20_000 * SQL_SCALE), "columns": 3, "batch": 500},
    "sql3": {"parents": round(1000 * SQL_SCALE), "columns": 10, "batch": 300},
}


def run_steps(workload: str) -> None:
    """Builds the workload and repeats its step until the recorder ends the program."""
    sys.path.insert(0, str(ROOT / "recorder" / "workloads"))
    import workloads

    marks = importlib.import_module("marks").Marks()
    make = workloads.WORKLOADS[workload]
    step = workloads._sql(**SQL[workload]) if workload in SQL else make()
    marks.phase("run")
    while True:
        step()
        marks.operations(1)


def record(workload: str, directory: Path) -> None:
    """Records a workload.

    Raises:
        CalledProcessError: The recorder failed.
    """
    trace = TRACES / f"{workload}.twt"
    part = directory / trace.name
    environment = os.environ | {
        "TIERWISE_EMT_BENCH_SCALE": str(SQL_SCALE if workload in LIMITS else SCALE),
        # The second input of the true counts (truth/run.py).
        "TIERWISE_EMT_BENCH_SEED": "2",
        "PYTHONHASHSEED": "102",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    options = ["-o", part, "--window", WINDOW, "--llc", LLC, "--objects"]
    options += ["--max-instructions", LIMITS.get(workload, LIMIT)]
    options += ["--marks", directory / "marks.fifo"]
    program = [sys.executable, os.path.relpath(__file__, ROOT), "--step", workload]
    run([*TIERWISE, "record", *options, "--", *program], environment)
    coarsen = ["cargo", "run", "-q", "--release", "--bin", "coarsen-load"]
    run([*coarsen, part, LOAD_WINDOWS])
    kept = directory / "kept.twt"
    run([*TIERWISE, "trace", "cut", part, kept, "--windows", f"0..{LOAD_WINDOWS + RUN_WINDOWS}"])
    # It also packs the windows as tightly as they can be.
    run([*coarsen, kept, LOAD_WINDOWS])
    trace.write_bytes(kept.read_bytes())


def run(words: list[object], environment: dict[str, str] | None = None) -> None:
    """Runs a command in the project's directory."""
    subprocess.run([str(word) for word in words], cwd=ROOT, env=environment, check=True)


def main(workloads: list[str]) -> None:
    """Records what has no trace yet."""
    from workloads import WORKLOADS

    TRACES.mkdir(parents=True, exist_ok=True)
    # The last four are not the paper's.
    for workload in workloads or list(WORKLOADS)[:-4]:
        if not (TRACES / f"{workload}.twt").exists():
            with tempfile.TemporaryDirectory() as directory:
                record(workload, Path(directory))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--step"]:
        run_steps(sys.argv[2])
    else:
        main(sys.argv[1:])
