"""A program that is tracked keeps its memory, its signals and its tracking, whatever it does."""

from pathlib import Path

import pytest
from conftest import Program

TESTS = str(Path(__file__).parent)
BEGIN = f"""
import os, sys; sys.path.insert(0, {TESTS!r})
from protection import is_protected, protected_mappings
import tierwise.emt as emt
"""

#: A mapping of its own in a program, whose protection is asked for by its address.
OWN_MAPPING = """
import ctypes, mmap
memory = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory[:] = b"x" * len(memory)
start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
"""


def test_a_fork_takes_no_protection_from_the_parent(program: Program) -> None:
    # One interval outlasts the program: nothing registers the parent's memory anew.
    said = program(
        BEGIN + OWN_MAPPING + """
emt.start(emt.Settings(sample_interval=60.0, overhead_budget=1.0))
while not is_protected(start):
    pass
child = os.fork()
if child == 0:
    os._exit(0 if not emt.stats().active and protected_mappings() == 0 else 1)
ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(ended, is_protected(start), emt.stats().active)
emt.end()
print(protected_mappings())
"""
    )
    assert said.stdout == "0 True True\n0\n"


def test_a_child_without_hooks_can_only_close_its_tracker(program: Program) -> None:
    # A library's fork calls no hook of Python's.
    said = program(
        BEGIN + OWN_MAPPING + """
from tierwise.emt.support import extension
tracker, table = extension().Tracker("uffd-wp"), extension().Table()
stop, _ = os.pipe()
tracker.sample(table, 10**6, 10**6, 1 << 20, 0.5, stop)
child = ctypes.PyDLL(None).fork()
if child == 0:
    refused = ""
    try:
        tracker.sample(table, 10**6, 10**6, 1 << 20, 0.5, stop)
    except RuntimeError as error:
        refused = str(error)
    tracker.close()
    os._exit(0 if "parent" in refused else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), is_protected(start))
tracker.close()
print(protected_mappings())
"""
    )
    assert said.stdout == "0 True\n0\n"

@pytest.mark.parametrize("forks", [0, 1])
def test_signals_that_a_program_waits_for_reach_it(program: Program, forks: int) -> None:
    # After a fork the thread is begun anew, by another hand.
    said = program(
        BEGIN + f"""
import signal
before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
with emt.tiering(sample_interval=0.02, overhead_budget=1.0) as t:
    for _ in range({forks}):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
    # The thread is there.
    intervals = t.stats().intervals
    while t.stats().intervals == intervals:
        pass
    assert signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGUSR1}}) == before
    os.kill(os.getpid(), signal.SIGUSR1)
    print(signal.sigwait({{signal.SIGUSR1}}).name)
"""
    )
    assert said.stdout == "SIGUSR1\n"
