"""In the guest: runs of a bench under each policy, one after the other."""

import json
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tierguest import Guest

from .run import LOGS

# One run, from the guest, the policy and the file for the daemon's views (None without logs).
OneRun = Callable[[Guest, str, Path | None], Mapping[str, Any]]


def each_policy(kernel: str, policies: Sequence[str], run: OneRun) -> int:
    """Runs each policy and prints one JSON line per run. Stops with status 1 after the first failed
    run, which reports its reason instead of figures."""
    with os.fdopen(int(os.environ["LAB_EVENTS"]), "w") as events:
        for policy in policies:
            print(f"bench: {policy}", flush=True)
            try:
                figures = _logged(kernel, policy, run)
            except Exception as error:
                traceback.print_exc(file=sys.stdout)
                failed = f"{type(error).__name__}: {error}"
                print(json.dumps({"policy": policy, "failed": failed}), file=events, flush=True)
                return 1
            print(json.dumps({"policy": policy, **figures}), file=events, flush=True)
    return 0


def _logged(kernel: str, policy: str, run: OneRun) -> Mapping[str, Any]:
    logs = Path(os.environ[LOGS]) if LOGS in os.environ else None
    with Guest(kernel) as guest:
        try:
            return run(guest, policy, logs / f"{policy}.jsonl" if logs else None)
        finally:
            for log in guest.directory.glob("tierwised*.log") if logs else ():
                shutil.copy(log, Path(os.environ[LOGS]) / f"{policy}.log")
