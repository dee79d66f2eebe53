"""Tests of children of a fork that calls no hook: a library's own fork, as in application
servers."""

import os
import sys
from pathlib import Path

import pytest
from conftest import Program

#: Forks a child in the middle of a phase. The pipe then shows that the parent's thread has not been
#: signalled to stop.
FORK = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
import ctypes, os, select, time
import tierwise.emt as emt
from tierwise.emt.process import PROCESS

def fork(in_child):
    # Only the interpreter's lock is held: the tracking thread is within its phase or waits.
    child = ctypes.PyDLL(None).fork()
    if child == 0:
        status = 1
        try:
            status = 0 if in_child() else 1
        except BaseException as error:
            print(type(error).__name__, error, file=sys.stderr, flush=True)
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def told_to_stop():
    return bool(select.select([PROCESS.last()._stop], [], [], 0)[0])

def start_tracking():
    emt.start(emt.Settings(sample_interval=60.0, overhead_budget=1.0))
    # A fork without hooks copies who waits for the interpreter's lock: a child that releases the
    # lock would wait for them for ever. The tracking thread sleeps in its phase from now on. Before
    # that it pauses until the program has paid for the start.
    while PROCESS.last()._ledger.overdrawn or not asleep(PROCESS.last()._native_thread):
        sum(range(1000000))
        time.sleep(0.05)

def asleep(thread):
    if not thread:
        return False
    with open("/proc/self/task/%d/stat" % thread) as stat:
        return stat.read().rpartition(")")[2].split()[0] == "S"
"""

#: The first action of a child.
ENDS = """
def in_child():
    try:
        emt.end()
    except emt.NotTracking:
        return True
"""
STATS = "in_child = lambda: not emt.stats().active"
#: Some servers call this hook. Since 3.13 the interpreter crashes in it without PyOS_BeforeFork.
HOOK_AFTER = """
def in_child():
    ctypes.pythonapi.PyOS_AfterFork_Child()
    return not emt.stats().active
"""
EXITS = """
def in_child():
    PROCESS._at_exit()
    return True
"""
FIRST = {"end": ENDS, "stats": STATS, "exit": EXITS}
if sys.version_info < (3, 13):
    FIRST["hook"] = HOOK_AFTER


@pytest.mark.parametrize("first", FIRST.values(), ids=FIRST.keys())
def test_a_child_leaves_its_parents_tracking_alone(program: Program, first: str) -> None:
    printed = program(
        FORK
        + first
        + """
start_tracking()
print(fork(in_child), told_to_stop(), emt.stats().active)
emt.end()
"""
    )
    assert printed.stdout == "0 False True\n", printed.stderr
    assert printed.stderr == ""


def test_a_child_writes_no_results(program: Program, tmp_path: Path) -> None:
    # The parent writes its results at its own end.
    printed = program(
        f"""
import os, sys
child = os.fork()
if child == 0:
    sys.exit(0)
os.waitpid(child, 0)
print(os.path.exists({str(tmp_path / "metrics")!r}))
""",
        "-m", "tierwise.emt", "run", "--metrics", str(tmp_path / "metrics"),
    )  # fmt: skip
    assert printed.stdout == "False\n"
    assert os.path.exists(tmp_path / "metrics")


@pytest.mark.parametrize("handler", ["fork", "begin"])
def test_signal_handlers_may_fork_during_start(program: Program, handler: str) -> None:
    # The handler runs in the middle of the start. A handler that waited for the start would hang.
    printed = program(
        f"""
import os, signal
import tierwise.emt as emt
import tierwise.emt.tracking as tracking
found = []
def handle(*_):
    if {handler!r} == "begin":
        try:
            emt.start()
        except emt.AlreadyTracking:
            found.append(0)
        return
    child = os.fork()
    if child == 0:
        os._exit(0)
    found.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
signal.signal(signal.SIGUSR1, handle)
make = tracking.make_signal
def interrupted(settings):
    signal.raise_signal(signal.SIGUSR1)
    return make(settings)
tracking.make_signal = interrupted
emt.start()
print(found, emt.stats().active)
emt.end()
"""
    )
    assert printed.stdout == "[0] True\n"
    assert printed.stderr == ""
