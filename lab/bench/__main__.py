"""In the guest: python3 -m bench KERNEL HOST PROGRAM POLICY... runs a program under each policy,
and prints one JSON line per run. HOST is one of programs.HOSTS."""

import json
import os
import shutil
import sys
import traceback
from pathlib import Path

from tierguest import Guest

from .policies import POLICIES
from .programs import program
from .run import LOGS, one, settle


def main(words: list[str]) -> int:
    """Runs all policies. A failed run reports its reason instead of figures, and the next one
    starts. Returns 1 if one failed."""
    kernel, host, name, *names = words
    failed = False
    with os.fdopen(int(os.environ["LAB_EVENTS"]), "w") as events:
        settle()
        for number, policy in enumerate(names):
            print(f"bench: {name} under {policy}", flush=True)
            result: dict[str, object]
            try:
                with Guest(kernel) as guest:
                    result = {
                        "program": name,
                        "policy": policy,
                        "host": host,
                        **one(guest, program(name), POLICIES[policy], host),
                    }
                    _keep_log(guest, f"{name}-{number}-{policy}.log")
            except Exception as error:
                traceback.print_exc(file=sys.stdout)
                failed = True
                result = {
                    "program": name,
                    "policy": policy,
                    "host": host,
                    "failed": f"{type(error).__name__}: {error}",
                }
            print(json.dumps(result), file=events, flush=True)
    return int(failed)


def _keep_log(guest: Guest, name: str) -> None:
    """Copies the log of the run's daemon, if there was one and logs are wanted."""
    for log in guest.directory.glob("tierwised*.log"):
        if LOGS in os.environ:
            shutil.copy(log, Path(os.environ[LOGS]) / name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
