"""Tests of the paper's interface and of tracking by its signals."""

import os
import platform
from pathlib import Path

import emt_reproduction
import pytest
import tierwise.emt as emt
from conftest import Program
from emt_reproduction import _objects
from emt_reproduction.counters import Counters
from emt_reproduction.pool_objects import types_of_objects
from protection import protected_mappings
from test_bad_luck import SECCOMP
from tierwise.emt.descriptors import Descriptor
from tierwise.emt.support import free_threaded

TESTS = str(Path(__file__).parents[2] / "tests")
BEGIN = f"""
import sys; sys.path.insert(0, {TESTS!r})
from protection import protected_mappings
from test_bad_luck import SECCOMP
import tierwise.emt as emt, emt_reproduction
QUICK = dict(sample_interval=0.02, overhead_budget=1.0)
"""
#: A free-threaded interpreter has no pools: there a program ends with this error.
OF_OBJECTS = pytest.mark.xfail(
    free_threaded(), raises=AssertionError, strict=True, reason="a free-threaded build has no pools"
)


def test_listing_1_starts_and_ends_tracking() -> None:
    emt_reproduction.EMT.start(0, "1GiB", 0.25)
    signal = "growth" if _objects.GROWTH_BUILD_ID else "uffd-wp"
    assert emt_reproduction.EMT.end().signal == signal
    with pytest.raises(emt.Unavailable, match="node 5"):
        emt_reproduction.EMT.start(1 << 5, "1GiB", 0.25)
    for mask in ("x", 1.5, True, -1):
        with pytest.raises(ValueError, match=f"mask is {mask!r}; allowed: a bit"):
            emt_reproduction.EMT.start(mask, "1GiB", 0.25)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("names", "allowed"),
    [
        (("psychic",), "growth, refdelta"),
        (("refdelta", "guessing"), "pools, marking"),
        (("refdelta", "marking", "largest"), "summed, median"),
        (("refdelta", "pools", "median"), "with objects='marking'"),
    ],
)
def test_unknown_names_are_refused(names: tuple[str, ...], allowed: str) -> None:
    with pytest.raises(ValueError, match=allowed):
        emt_reproduction.make_signal(*names)


@pytest.mark.parametrize("objects", ["pools", "marking"])
def test_a_block_tracks_objects(objects: str) -> None:
    if free_threaded():
        with pytest.raises(emt.Unavailable, match="free-threaded"):
            emt_reproduction.start("refdelta", objects)
        return
    with emt_reproduction.tiering(
        "refdelta", objects, sample_interval=0.01, overhead_budget=1.0
    ) as tracked:
        held = [object() for _ in range(10_000)]
        while tracked.stats().active and not tracked.stats().pages_tracked:
            held = [*reversed(held)]
        assert tracked.stats().signal == "refdelta"
    assert tracked.stats().reason == "ended"
    assert protected_mappings() == 0


def test_counters_become_a_reading(tmp_path: Path) -> None:
    files = []
    for name, count in (("loads", 1000), ("misses", 100), ("remote", 50)):
        (tmp_path / name).write_bytes(count.to_bytes(8, "little"))
        files.append(open(tmp_path / name, "rb", buffering=0))  # noqa: SIM115
    counters = Counters(tuple(Descriptor(os.dup(file.fileno())) for file in files))
    reading = counters.read(slow_hot=0.5)
    assert (reading.source, reading.llc_miss) == ("counters", 0.1)
    assert reading.slow_bandwidth and reading.slow_bandwidth > 0
    counters.close()
    for file in files:
        file.close()
    assert counters.read(slow_hot=0.5).source == "hot-slow-pages"


def test_a_busy_sampler_releases_its_arguments() -> None:
    try:
        objects = _objects.Objects(False)
    except OSError:
        assert free_threaded()
        return
    objects.close()
    types = bytearray(types_of_objects())
    with pytest.raises(RuntimeError, match="closed"):
        objects.collect(types, 1000)
    # A buffer cannot grow while it is exported.
    types.append(0)


#: What a program does while its objects are sampled, and what it prints then.
WORK = {
    "freed at once": """
many = [float(n) for n in range(10**7)]
before = t.stats().intervals
while t.stats().intervals < before + 2:
    sum(range(1000))
total = sum(many)
many = None
again = [float(n) for n in range(10**6)]
del again
print(int(total))
""",
    "arenas": """
rounds = 0
while t.stats().active and (rounds < 60 or t.stats().intervals < 60):
    made = [[n] for n in range(60000)]
    assert sum(item[0] for item in made) == 60000 * 59999 // 2
    del made
    rounds += 1
assert t.stats().active, t.stats()
print(int(10**7 * (10**7 - 1) / 2))
""",
}


def indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.strip().splitlines())


@OF_OBJECTS
@pytest.mark.parametrize("work", WORK.values(), ids=WORK.keys())
def test_memory_may_be_freed_while_sampled(program: Program, work: str) -> None:
    printed = program(
        f"{BEGIN}\nwith emt_reproduction.tiering('refdelta', **QUICK) as t:\n{indented(work)}"
    )
    assert printed.stdout == f"{sum(range(10**7))}\n"


#: Programs in which pools cannot be read, and the reason that they get.
REFUSED = {
    "malloc": (BEGIN, {"PYTHONMALLOC": "malloc"}, "PYTHONMALLOC=malloc"),
    # process_vm_readv, by its number.
    "seccomp": (
        f"{SECCOMP}import emt_reproduction\n"
        f"forbid({ {'x86_64': 310, 'aarch64': 270}[platform.machine()] }, 1)\n",
        {},
        "process_vm_readv",
    ),
}


@OF_OBJECTS
@pytest.mark.parametrize(("text", "environment", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_unreadable_pools_are_refused(
    program: Program, text: str, environment: dict[str, str], reason: str
) -> None:
    printed = program(
        f"{text}try:\n    emt_reproduction.start('refdelta')\n"
        "except emt.Unavailable as error:\n    print(error)",
        **environment,
    )
    assert reason in printed.stdout


@OF_OBJECTS
def test_files_under_reused_descriptors_stay_intact(program: Program, tmp_path: Path) -> None:
    printed = program(
        BEGIN
        + f"""
import os
emt_reproduction.start("refdelta", settings=emt.Settings(**QUICK))
os.closerange(3, 100)
files = [open({str(tmp_path)!r} + f"/{{n}}", "w+") for n in range(8)]
for file in files:
    file.write("kept")
    file.flush()
    file.seek(0)
try:
    reason = emt.end().reason
except emt.NotTracking:
    reason = emt.stats().reason
print([file.read() for file in files] == ["kept"] * 8, "closed the descriptors" in reason)
"""
    )
    assert printed.stdout == "True True\n"


@OF_OBJECTS
def test_a_child_leaves_the_sampler_alone(program: Program) -> None:
    # A library's fork calls no hook of Python's.
    printed = program(
        BEGIN
        + """
import ctypes, os, time
emt_reproduction.start("refdelta", settings=emt.Settings(**QUICK))
while emt.stats().intervals < 3:
    sum(range(1000))
child = os.fork()
if child == 0:
    os._exit(0 if not emt.stats().active else 1)
ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
before = emt.stats().intervals
while emt.stats().intervals == before:
    sum(range(1000))
print(ended, emt.end().reason)
"""
    )
    assert printed.stdout == "0 ended\n"
