"""Runs CPython's test_gc, test_dict and test_threading with tracking on, which the environment
switches on: TIERWISE_EMT, or for the reproduction EMT_REPRODUCTION. With the argument "heaps" it
runs more of them without tracking, with objects in the heaps (site/). Returns status 1 if one
fails.

A suite that also fails without tracking does not count: the machine is then the cause, not
tracking.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import tierwise.emt as emt
from tierwise.emt.support import free_threaded

SUITES = ("test_gc", "test_dict", "test_threading")
#: What allocates in other ways: in other sizes, by C code, before a fork, at the end.
HEAP_SUITES = (
    *SUITES,
    "test_list",
    "test_set",
    "test_bytes",
    "test_str" if sys.version_info >= (3, 13) else "test_unicode",
    "test_json",
    "test_pickle",
    "test_weakref",
    "test_generators",
    "test_descr",
    "test_fork1",
    "test_atexit",
    "test_tracemalloc",
)
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
    """Runs all suites."""
    if sys.argv[1:] == ["heaps"]:
        site = {
            "PYTHONPATH": str(Path(__file__).parent / "site"),
            "TIERWISE_EMT_BENCH_HEAPS": "1",
        }
        return run(HEAP_SUITES, {**os.environ, **site}, dict(os.environ), "the heaps")
    if not emt.stats().active:
        print(f"tracking is not on: {emt.stats().reason}", file=sys.stderr)
        return 1
    signal = emt.end().signal
    switches = ("TIERWISE_EMT", "EMT_REPRODUCTION")
    plain = {name: value for name, value in os.environ.items() if name not in switches}
    return run(SUITES, dict(os.environ), plain, signal)


def run(
    suites: Sequence[str], environment: dict[str, str], plain: dict[str, str], tried: str
) -> int:
    """Runs suites in an environment, and those that fail in a plain one; returns a status."""
    failed = False
    for suite in suites:
        passed, printed = passes(suite, environment)
        if not passed and passes(suite, plain)[0]:
            print(f"{suite} fails with {tried} only:\n{printed}", file=sys.stderr)
            failed = True
        else:
            print(
                f"{suite}: {'passed' if passed else 'fails on this machine without it too'} "
                f"with {tried}",
                flush=True,
            )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
