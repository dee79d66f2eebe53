"""In the guest: `python3 -m emtbench KERNEL WORKLOAD[:TIMES[:SHARE[:PLACING,...[:RESIDENT]]]]...`
runs each workload under all placings and shares, and prints one JSON line per run.

TIMES multiplies the workload's amount of work. With SHARE the run has only that share of fast
memory, and with PLACING only those. RESIDENT is the program's memory in MiB, which an earlier run
printed; then there is no run with everything fast.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from bench.policies import POLICIES
from bench.run import FILL_S, WORK_S, settle
from tierguest import Guest
from tierguest.program import Program, resident_bytes, wait_for_file

MIB = 1 << 20
#: Shares of the resident set that fit into fast memory (section 7 of the paper has these).
SHARES = (0.25, 0.5, 0.75)
#: No tiering, the kernel's with its defaults and as the bench tunes it, tierwise.emt's tracking,
#: and its heaps as the program or a profile fills them, or as the program should not (placed.py).
PLACINGS = (
    "none",
    "kernel-default",
    "kernel",
    "emt",
    "heaps",
    "heaps-emt",
    "heaps-wrong",
    "profile",
)
KERNELS = {"kernel-default": "kernel-default", "kernel": "kernel-tiering"}
#: Those that the program itself carries out.
IN_PROGRAM = ("emt", "heaps", "heaps-emt", "heaps-wrong", "profile")
#: Workloads that say which objects they seldom use; the others have no such placing.
WITH_BLOCKS = ("strewn",)
#: Memory of the fast node that the kernel uses beside the program's pages (lab/bench/programs.py).
KEPT_MIB = 10
#: Pieces of work of a recording, enough for some rotations of its tracking; of workloads with long
#: pieces.
PROFILE_TIMES = "4"
PROFILE_TIMES_OF = {"search": "1", "kc": "1", "bellman": "1", "lc": "1"}
SITE = "/lab/bin/emt-site"
PROGRAM = Path(__file__).parent / "placed.py"


def fill(guest: Guest, workload: str, placing: str) -> tuple[Program, Path]:
    """Returns a program that has filled its memory and waits, and the file for which it waits; a
    workload is NAME:TIMES."""
    name, times = workload.split(":")
    report, go = guest.directory / "filled", guest.directory / "go"
    words = (
        "env",
        f"PYTHONPATH={SITE}",
        "python3",
        str(PROGRAM),
        name,
        times,
        placing,
        str(report),
        str(go),
    )
    program = guest.start(*words, cgroup=guest.cgroup("emtbench"))
    wait_for_file(report, program, FILL_S)
    return program, go


def run(
    kernel: str, workload: str, placing: str, share: float, resident_mib: float
) -> dict[str, Any]:
    """Does one run; `resident_mib` was measured with everything fast."""
    with Guest(kernel) as guest:
        if share < 1.0:
            guest.ballast(round(share * resident_mib) + KEPT_MIB)
        in_program = placing if placing in IN_PROGRAM else "none"
        program, go = fill(guest, workload, in_program)
        resident = resident_bytes(program.pid) / MIB
        if placing in KERNELS:
            POLICIES[KERNELS[placing]].start(guest, guest.cgroup("unused"), program.pid)
        go.write_text("go\n", encoding="ascii")
        status = program.wait(WORK_S)
        assert status == 0, f"status {status}: {program.printed()}"
        return {
            "workload": workload,
            "placing": placing,
            "share": share,
            "resident_mib": resident,
            **program.json_lines()[-1],
        }


def record(kernel: str, workload: str) -> dict[str, object]:
    """Records the profile of a workload with everything fast."""
    with Guest(kernel) as guest:
        name = workload.split(":")[0]
        go = guest.directory / "go"
        go.write_text("go\n", encoding="ascii")
        words = ("python3", "-m", "tierwise.emt", "profile", "-o", "/tmp/sites.json", str(PROGRAM))
        times = PROFILE_TIMES_OF.get(name, PROFILE_TIMES)
        arguments = (name, times, "none", str(guest.directory / "filled"), str(go))
        program = guest.start(
            "env", f"PYTHONPATH={SITE}", *words, *arguments, cgroup=guest.cgroup("emtbench")
        )
        status = program.wait(WORK_S)
        assert status == 0, f"status {status}: {program.printed()}"
        return {"workload": workload, "placing": "recording", "printed": program.printed()[-400:]}


def main(kernel: str, workloads: list[str]) -> None:
    """Runs all workloads."""
    with os.fdopen(int(os.environ["LAB_EVENTS"]), "w") as events:
        settle()
        with Guest(kernel) as guest:
            # As pip does when it installs a wheel.
            guest.run("python3", "-m", "compileall", "-q", SITE, within_s=FILL_S)
        for wanted in workloads:
            name, times, share, some, resident = (*wanted.split(":"), "", "", "", "")[:5]
            placings = [
                placing
                for placing in (some.split(",") if some else PLACINGS)
                if not placing.startswith("heaps") or name in WITH_BLOCKS
            ]
            workload, shares = f"{name}:{times or 1}", (float(share),) if share else SHARES
            found = {"resident_mib": float(resident or 0)}
            if not resident:
                found = run(kernel, workload, "all-fast", 1.0, 0.0)
                print(json.dumps(found), file=events, flush=True)
            resident_mib, result = found["resident_mib"], found.get("result")
            for part in shares:
                for placing in placings:
                    if placing == "profile":
                        print(json.dumps(record(kernel, workload)), file=events, flush=True)
                    found = run(kernel, workload, placing, part, resident_mib)
                    result = found["result"] if result is None else result
                    assert found["result"] == result, f"not {result} as before: {found}"
                    print(json.dumps(found), file=events, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
