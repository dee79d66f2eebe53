"""In the guest: `python3 -m profiles.profiles KERNEL WORKLOAD...` runs each workload with lazy and
with eager demotion, and prints one JSON line per run."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from bench.run import FILL_S, WORK_S, settle
from tierguest import Guest
from tierguest.program import resident_bytes, wait_for_file

MIB = 1 << 20
#: Section 6.2 profiles where the allocation is least certain.
SHARE = 0.5
#: Memory of the fast node that the kernel uses beside the program's pages (lab/bench/programs.py).
KEPT_MIB = 10
PROGRAM = Path(__file__).parent / "profiled.py"


def run(
    kernel: str, workload: str, demotion: str, steps: int, resident_mib: float
) -> dict[str, object]:
    """Does one run of this many steps, or of as many as fit into the program's own time."""
    with Guest(kernel) as guest:
        if resident_mib:
            guest.ballast(round(SHARE * resident_mib) + KEPT_MIB)
        report, go = guest.directory / "filled", guest.directory / "go"
        site = f"PYTHONPATH=/lab/bin/emt-site:{Path.cwd() / 'packages'}:{Path.cwd()}"
        words = (
            "env",
            site,
            "python3",
            str(PROGRAM),
            workload,
            demotion,
            str(steps),
            str(report),
            str(go),
        )
        program = guest.start(*words, cgroup=guest.cgroup("emtbench"))
        wait_for_file(report, program, FILL_S)
        resident = resident_bytes(program.pid) / MIB
        go.write_text("go\n", encoding="ascii")
        status = program.wait(WORK_S)
        assert status == 0, f"status {status}: {program.printed()}"
        return {
            "workload": workload,
            "demotion": demotion,
            "resident_mib": resident,
            **program.json_lines()[-1],
        }


def main(kernel: str, workloads: list[str]) -> None:
    """Runs all workloads."""
    with os.fdopen(int(os.environ["LAB_EVENTS"]), "w") as events:
        settle()
        for workload in workloads:
            bound = run(kernel, workload, "none", 0, 0.0)
            steps, resident_mib = bound["steps"], bound["resident_mib"]
            assert isinstance(steps, int) and isinstance(resident_mib, float)
            for demotion in ("lazy", "eager"):
                print(
                    json.dumps(run(kernel, workload, demotion, steps, resident_mib)),
                    file=events,
                    flush=True,
                )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
