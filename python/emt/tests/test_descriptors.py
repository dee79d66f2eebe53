"""Tests of tracking in a program that closes descriptors, or that has reached its limit of them."""

import errno
import os
from pathlib import Path

import pytest
from conftest import Program
from tierwise.emt.descriptors import Stop, wait_readable

BEGIN = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
import os, resource
from protection import protected_mappings
import tierwise.emt as emt
"""


@pytest.mark.parametrize("before", [0, 1])
def test_files_under_reused_descriptors_stay_intact(
    program: Program, tmp_path: Path, before: int
) -> None:
    printed = program(
        BEGIN
        + f"""
emt.start(emt.Settings(sample_interval=0.02, overhead_budget=1.0))
# The program's files reuse some of the numbers; the other numbers stay closed.
os.closerange(3 + {before}, 100)
files = [open({str(tmp_path)!r} + f"/{{n}}", "w+") for n in range(8)]
for file in files:
    file.write("kept")
    file.flush()
    file.seek(0)
try:
    reason = emt.end().reason
except emt.NotTracking:
    reason = emt.stats().reason
kept = [file.read() for file in files] == ["kept"] * 8
print(kept, "closed the descriptors" in reason, protected_mappings())
"""
    )
    assert printed.stdout == "True True 0\n"


def test_exhausted_descriptors_raise_unavailable(program: Program) -> None:
    printed = program(
        BEGIN
        + """
# The first start imports the modules; later starts need no descriptors for them.
emt.start()
emt.end()
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, most))
held = []
def hold_all():
    try:
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        return len(held)
all_held = hold_all()
for free in range(10):
    for _ in range(free):
        os.close(held.pop())
    try:
        emt.start()
    except emt.Unavailable as error:
        print("Too many open files" in str(error) or str(error))
        # The failed start has closed its descriptors.
        assert hold_all() == all_held
    else:
        emt.end()
        assert hold_all() == all_held
        print("started")
        break
"""
    )
    lines = printed.stdout.splitlines()
    assert len(lines) > 1
    assert lines == ["True"] * (len(lines) - 1) + ["started"]


def test_tracking_rests_while_there_are_no_descriptors(program: Program) -> None:
    printed = program(
        BEGIN
        + f"""
from tierwise.emt.process import PROCESS
emt.start(emt.Settings(sample_interval=0.02, overhead_budget=1.0))
signal = PROCESS.last()._signal
sample, refused = signal.sample, []
def refuse_three(*args):
    if len(refused) < 3:
        refused.append(args)
        raise OSError({errno.EMFILE}, "Too many open files")
    return sample(*args)
signal.sample = refuse_three
while emt.stats().active and len(refused) < 3:
    pass
before = emt.stats().intervals
while emt.stats().active and emt.stats().intervals == before:
    pass
print(emt.stats().active, emt.end().reason)
"""
    )
    assert printed.stdout == "True ended\n"
    assert printed.stderr == ""


def test_a_descriptor_may_have_a_large_number(program: Program) -> None:
    # select accepts only numbers below 1024.
    printed = program(
        BEGIN
        + """
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
held = [os.open("/dev/null", os.O_RDONLY) for _ in range(1100)]
with emt.tiering(sample_interval=0.02, overhead_budget=1.0) as t:
    while t.stats().active and t.stats().intervals < 2:
        pass
    print(t.stats().active)
"""
    )
    assert printed.stdout == "True\n"


def test_what_was_told_is_forgotten_however_often() -> None:
    stop = Stop()
    stop.open()
    for _ in range(3):
        stop.notify()
    assert wait_readable(stop.fileno(), 0.0)
    stop.forget()
    assert not wait_readable(stop.fileno(), 0.0)
    stop.forget()
    numbers = [stop.fileno()]
    stop.close()
    stop.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(numbers[0])
