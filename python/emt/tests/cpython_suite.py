"""Runs CPython's test_gc, test_dict and test_threading with tracking on, which the environment
switches on: TIERWISE_EMT, or for the reproduction EMT_REPRODUCTION. Returns status 1 if one fails.

A suite that also fails without tracking does not count: the machine is then the cause, not
tracking.
"""

import os
import subprocess
import sys

import tierwise.emt as emt
from tierwise.emt.support import free_threaded

SUITES = ("test_gc", "test_dict", "test_threading")
#: test_get_count and test_get_objects_arguments count the containers of the whole process twice in
#: a row. The tracking thread creates some in between, as any thread does. Tests of threading count
#: a process's threads, or check its end, in programs of their own, which inherit the environment
#: and are tracked too.
IGNORED = ["test_get_count", "test_get_objects_arguments"]
if free_threaded() and sys.version_info[:2] == (3, 13):
    # A free-threaded 3.13 makes functions, modules and classes immortal when any program starts a
    # second thread. Its objects are then not finalised at the end.
    IGNORED += [
        "test_function_tp_clear_leaves_consistent_state",
        "test_gc_main_module_at_shutdown",
        "test_gc_ordinary_module_at_shutdown",
        "test_global_del_SystemExit",
        "test_locals_at_exit",
        "test_main_thread_during_shutdown",
        "test_start_new_thread_at_finalization",
    ]
#: Far above the time of a suite on a shared machine.
HANGS_AFTER_S = 900
WORDS = (
    sys.executable,
    "-m",
    "test",
    "-q",
    *(word for name in IGNORED for word in ("--ignore", name)),
)


def passes(suite: str, environment: dict[str, str]) -> tuple[bool, str]:
    """Runs a suite; returns true if it passes, and its output."""
    try:
        done = subprocess.run(
            [*WORDS, suite],
            capture_output=True,
            text=True,
            env=environment,
            timeout=HANGS_AFTER_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False, f"still ran after {HANGS_AFTER_S} s"
    return done.returncode == 0, (done.stdout + done.stderr)[-4000:]


def main() -> int:
    """Runs all three suites."""
    if not emt.stats().active:
        print(f"tracking is not on: {emt.stats().reason}", file=sys.stderr)
        return 1
    signal = emt.end().signal
    switches = ("TIERWISE_EMT", "EMT_REPRODUCTION")
    plain = {name: value for name, value in os.environ.items() if name not in switches}
    failed = False
    for suite in SUITES:
        passed, printed = passes(suite, dict(os.environ))
        if not passed and passes(suite, plain)[0]:
            print(f"{suite} fails with tracking only:\n{printed}", file=sys.stderr)
            failed = True
        else:
            print(
                f"{suite}: {'passed' if passed else 'fails on this machine without tracking too'} "
                f"with {signal}"
            )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
