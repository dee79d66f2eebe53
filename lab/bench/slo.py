"""In the guest: python3 -m bench.slo KERNEL POLICY... runs the ramp under each policy and prints
one JSON line per run. The first policy is all-fast, from whose run the SLOs follow."""

import json
import os
import shutil
import sys
import traceback
from pathlib import Path
from typing import Any

from tierguest import Guest
from tierguest.files import write

from .mix import slo_us
from .mix_run import one
from .run import LOGS, settle

HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled"


def main(words: list[str]) -> int:
    """Runs all policies. Stops with status 1 after the first failed run, which reports its reason
    instead of figures."""
    kernel, *policies = words
    slos_us: dict[str, float] = {}
    with os.fdopen(int(os.environ["LAB_EVENTS"]), "w") as events:
        # khugepaged has the lowest priority and holds a program's memory while it copies. Memcached
        # stood still for seconds, and no longer does without it. Operators of stores switch it off.
        write(HUGE_PAGES, "never")
        settle()
        for policy in policies:
            print(f"bench: the ramp under {policy}", flush=True)
            try:
                figures = _run(kernel, policy, slos_us)
            except Exception as error:
                traceback.print_exc(file=sys.stdout)
                failed = f"{type(error).__name__}: {error}"
                print(json.dumps({"policy": policy, "failed": failed}), file=events, flush=True)
                return 1
            if not slos_us:
                slos_us = {name: slo_us(steps) for name, steps in figures["services"].items()}
            line = {"policy": policy, "slo_us": slos_us, **figures}
            print(json.dumps(line), file=events, flush=True)
    return 0


def _run(kernel: str, policy: str, slos_us: dict[str, float]) -> dict[str, Any]:
    logs = Path(os.environ[LOGS]) if LOGS in os.environ else None
    with Guest(kernel) as guest:
        try:
            return one(guest, policy, slos_us, logs / f"{policy}.jsonl" if logs else None)
        finally:
            for log in guest.directory.glob("tierwised*.log") if logs else ():
                shutil.copy(log, Path(os.environ[LOGS]) / f"{policy}.log")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
