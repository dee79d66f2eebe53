"""Tests of tierwise.emt in a guest with two nodes: it detects accesses and moves pages.

`python/emt/lab.sh` builds it for the guest.
"""

import json
from pathlib import Path
from typing import Any

from tierguest import Absence, Guest, test
from tierguest.configuration import configuration
from tierguest.files import write
from tierguest.settings import PER_CPU_LISTS

SITE = "/lab/bin/emt-site"
# A guest is emulated: the test checks the pages' nodes, not the cost.
BUDGET = 1.0
# A limit for a busy host; on an idle host an interval takes a tenth of a second.
LIMIT_S = 160
# Several rounds of migration. An idle host needs half of them; beside three other jobs on two CPUs
# 120 promoted two thirds of what is used.
INTERVALS = 240

# A program whose hot objects are known: a tenth of them is used. It prints the nodes of both parts'
# pages, and the statistics of tracking.
PROGRAM = """
import faulthandler, json, os, sys, time
from array import array
import tierwise.emt as emt
from tierwise.emt.native import NativeKernel
from tierwise.emt.process import PROCESS

signal, slow, spare_mib, intervals, way = sys.argv[1:]
spare_mib, intervals = int(spare_mib), int(intervals)
reads, objects, split = way == "reads", way in ("objects", "split"), way == "split"
# A program that hangs prints where.
faulthandler.dump_traceback_later(LIMIT, exit=True)
# Objects fill pools of their own, eight a page; their use writes their counts.
if objects:
    items = [bytes([n & 255]) * 440 for n in range(80000)]
else:
    items = [bytearray(4096) for _ in range(10000)]
hot = items[len(items) * 4 // 10 : len(items) // 2]
size = len(hot[0])

def pages(part):
    # bytearray.__alloc__ is beside the object: the middle of the buffer is on a page of its own or
    # a neighbour's.
    if objects: return array("Q", sorted({id(item) & ~4095 for item in part}))
    import ctypes
    places = (ctypes.addressof(ctypes.c_char.from_buffer(item, size // 2)) for item in part)
    return array("Q", sorted({place & ~4095 for place in places}))

def on_nodes(part):
    nodes = list(NativeKernel().nodes(pages(part)))
    return [nodes.count(0) / len(nodes), nodes.count(1) / len(nodes)]

middle = size // 2
def use():
    if objects:
        for item in hot: pass
    elif reads:
        for item in hot: item[middle]
    else:
        for item in hot: item[middle] = 1

if split:
    # The hot part is in slow memory, and the cold one in fast memory.
    NativeKernel().move(pages(hot), 1)
before = {"hot": on_nodes(hot), "all": on_nodes(items)}
slow_nodes = [int(node) for node in slow.split(",") if node]
meminfo = open("/sys/devices/system/node/node0/meminfo")
free_kib = next(int(line.split()[3]) for line in meminfo if "MemFree" in line)
pressure = (free_kib << 10) - (spare_mib << 20)
with emt.tiering(
    slow_nodes, mem_pressure=pressure, signal=signal, sample_interval=0.1,
    overhead_budget=BUDGET, demotion="lazy",
) as t:
    table = PROCESS.last().table
    while t.stats().intervals < intervals and t.stats().active:
        use()
        time.sleep(0.001)
    stats = t.stats()
    hotness = lambda part: sorted(table.hotness(address) for address in pages(part))
    cold = items[: len(items) * 4 // 10]
    hot_pages = len(pages(hot))
    seen = {"hot": hotness(hot)[hot_pages // 4], "cold": hotness(cold)[-1 - hot_pages]}
flags = [line.split()[1:] for line in open("/proc/self/smaps") if line.startswith("VmFlags:")]
print(json.dumps({
    "before": before, "after": {"hot": on_nodes(hot), "all": on_nodes(items)}, "seen": seen,
    "promoted": stats.promoted, "demoted": stats.demoted, "failed": stats.failed,
    "active": stats.active, "reason": stats.reason, "intervals": stats.intervals,
    "left_protected": sum(bool({"uw", "ur", "uf"} & set(line)) for line in flags),
}))
""".replace("BUDGET", str(BUDGET)).replace("LIMIT", str(LIMIT_S))


def _run(
    guest: Guest, node: int, signal: str, slow: str, spare_mib: int, intervals: int, way: str
) -> dict[str, object]:
    """Runs the program with its memory preferred on a node, and returns its output.

    The program may use `spare_mib` of the memory that is free on the fast node at its start. If
    that is negative, it must demote as much.
    """
    assert Path(SITE).is_dir(), f"{SITE} is not in the guest: run python/emt/lab.sh on the host"
    file = guest.directory / "program.py"
    file.write_text(PROGRAM)
    # A hundredth of a zone: with an eighth on per-CPU lists, which cause no memory pressure, the
    # free memory would be unknown.
    write(PER_CPU_LISTS, 100)
    # The C library returns small buffers' memory to the system only from its own mappings, so one
    # arena keeps addresses constant.
    words = (
        "env",
        f"PYTHONPATH={SITE}",
        "MALLOC_ARENA_MAX=1",
        "numactl",
        f"--preferred={node}",
        "python3",
        str(file),
    )
    try:
        out = guest.run(
            *words, signal, slow, str(spare_mib), str(intervals), way, within_s=LIMIT_S + 20
        )
    except AssertionError as error:
        # The console only shows that a CPU is stuck in the kernel. The kernel's log has the place.
        raise AssertionError(
            "\n".join([str(error), *guest.run("dmesg").splitlines()[-80:]])
        ) from error
    found: dict[str, object] = json.loads(out.splitlines()[-1])
    assert found["active"], found
    assert found["left_protected"] == 0, found
    return found


def _part(found: dict[str, object], when: str, part: str) -> list[float]:
    shares = found[when]
    assert isinstance(shares, dict)
    nodes: list[float] = shares[part]
    return nodes


def _seen(found: dict[str, object]) -> tuple[float, float]:
    seen = found["seen"]
    assert isinstance(seen, dict)
    return seen["hot"], seen["cold"]


@test(boot="hmat", timeout_s=240, smoke=True)
def emt_promotes_what_is_used(guest: Guest) -> None:
    """The hot part of a program in slow memory is promoted; fast memory is free for a quarter."""
    found = _run(guest, 1, "uffd-wp", "1", 10, INTERVALS, "writes")
    assert _part(found, "before", "hot")[1] > 0.95, found
    guest.figure("hot_fast_share", _part(found, "after", "hot")[0])
    guest.figure("all_fast_share", _part(found, "after", "all")[0])
    assert _part(found, "after", "hot")[0] > 0.9, found
    # A tenth is hot. Other free memory varies by a few megabytes.
    assert _part(found, "after", "all")[0] < 0.5, found


@test(boot="hmat", timeout_s=240)
def emt_exchanges_what_is_used_for_what_is_not(guest: Guest) -> None:
    """Fast memory is lacking, the hot tenth of the objects is slow, and cold ones take its place
    there."""
    found = _run(guest, 0, "uffd-wp", "1", -28, INTERVALS, "split")
    assert _part(found, "before", "hot")[1] > 0.95, found
    guest.figure("hot_fast_share", _part(found, "after", "hot")[0])
    guest.figure("all_slow_share", _part(found, "after", "all")[1])
    assert _part(found, "after", "hot")[0] > 0.8, found
    assert 0.05 < _part(found, "after", "all")[1] < 0.3, found


@test(boot="hmat", timeout_s=240)
def emt_demotes_nothing_without_a_promotion(guest: Guest) -> None:
    """28 MiB of fast memory are lacking, but all objects that are used are fast."""
    found = _run(guest, 0, "uffd-wp", "1", -28, INTERVALS, "objects")
    assert _part(found, "before", "all")[0] > 0.95, found
    guest.figure("all_slow_share", _part(found, "after", "all")[1])
    assert _part(found, "after", "all")[1] < 0.1, found


@test(boot="hmat", timeout_s=240)
def emt_leaves_hot_read_only_arrays_alone(guest: Guest) -> None:
    """Hot arrays that are only read stay fast when 28 MiB of fast memory are lacking."""
    found = _run(guest, 0, "uffd-wp", "1", -28, INTERVALS, "reads")
    before, after = _part(found, "before", "hot")[0], _part(found, "after", "hot")[0]
    guest.figure("hot_fast_share", after)
    assert before > 0.95, found
    assert after >= before, found


@test(boot="hmat", timeout_s=180)
def emt_detects_hot_writes(guest: Guest) -> None:
    """uffd-wp distinguishes the part that is written from the rest."""
    found = _run(guest, 0, "uffd-wp", "", 0, INTERVALS, "writes")
    hot, cold = _seen(found)
    guest.figure("hotness_hot", hot)
    guest.figure("hotness_cold", cold)
    assert hot > 4 * max(cold, 1.0), found


def _rwp_is_refused(guest: Guest) -> None:
    """This kernel has no asynchronous read and write protection, and emt reports it."""
    out = guest.run("env", f"PYTHONPATH={SITE}", "python3", "-m", "tierwise.emt", "check")
    line = next(line for line in out.splitlines() if line.startswith("uffd-rwp:"))
    assert "no:" in line and "7.3" in line, out


@test(
    boot="hmat",
    timeout_s=180,
    absences={"6.12": Absence("userfaultfd has no RWP before 7.3", _rwp_is_refused)},
)
def emt_detects_hot_reads(guest: Guest) -> None:
    """uffd-rwp distinguishes a part of buffers that is only read from the rest; uffd-wp does
    not."""
    hot, cold = _seen(_run(guest, 0, "uffd-rwp", "", 0, INTERVALS, "reads"))
    guest.figure("hotness_hot", hot)
    guest.figure("hotness_cold", cold)
    assert hot > 4 * max(cold, 1.0), f"hot {hot}, cold {cold}"
    hot, cold = _seen(_run(guest, 0, "uffd-wp", "", "0", 20, "reads"))
    guest.figure("hotness_hot_by_writes", hot)
    assert hot <= 4 * max(cold, 1.0), f"writes alone: hot {hot}, cold {cold}"


# Moves a buffer between both nodes, and prints its pages, those that arrived, and its bytes by
# node.
PLACING = """
import json, mmap
from array import array
import tierwise.emt as emt

def made():
    yield array("d", range(1 << 20))
    yield memoryview(bytearray(8 << 20))
    memory = mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[:] = bytes(len(memory))
    yield memory

found = []
for thing in made():
    for tier in ("slow", "fast", "slow"):
        placed = emt.place(thing, tier, slow_nodes=[1])
        found.append([tier, placed.pages, placed.there, emt.where(thing)])
print(json.dumps(found))
"""

# Both mappings are used alike, and one of them is placed in slow memory.
HOLDING = """
import faulthandler, json, mmap, time
import tierwise.emt as emt

faulthandler.dump_traceback_later(LIMIT, exit=True)

def made():
    memory = mmap.mmap(-1, 4 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    # Tracking leaves huge pages alone.
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    memory[:] = bytes(len(memory))
    return memory

placed, other = made(), made()
with emt.tiering(
    [1], mem_pressure="4MiB", sample_interval=0.1, overhead_budget=1.0, demotion="lazy"
) as t:
    held = emt.place(placed, "slow").held
    while t.stats().active and emt.where(other).get(1, 0) > 0.05 * len(other):
        for thing in (placed, other):
            for n in range(0, len(thing), 2048):
                thing[n] = 1
        time.sleep(0.001)
    stats = t.stats()
print(json.dumps({
    "held": held, "placed": emt.where(placed), "other": emt.where(other),
    "promoted": stats.promoted, "active": stats.active, "reason": stats.reason,
}))
""".replace("LIMIT", str(LIMIT_S))


def _python(guest: Guest, text: str, *before: str) -> Any:
    """Runs a program and returns the JSON that it prints; words before it may place its memory."""
    file = guest.directory / "program.py"
    file.write_text(text)
    words = ("env", f"PYTHONPATH={SITE}", *before, "python3", str(file))
    return json.loads(guest.run(*words, within_s=LIMIT_S + 20).splitlines()[-1])


@test(boot="hmat", timeout_s=240)
def emt_places_buffers(guest: Guest) -> None:
    """Buffers of three kinds move to the slow node, to the fast one and back, whole."""
    for tier, pages, there, nodes in _python(guest, PLACING):
        assert pages > 2000, (tier, pages)
        assert there == pages, (tier, there, pages, nodes)
        assert nodes == {"1" if tier == "slow" else "0": 4096 * pages}, (tier, nodes)


@test(boot="hmat", timeout_s=240)
def emt_holds_placed_buffers(guest: Guest) -> None:
    """Of two arrays in slow memory that are used alike, the placed one stays and the other is
    promoted."""
    found = _python(guest, HOLDING, "numactl", "--preferred=1")
    assert found["active"] and found["held"], found
    assert set(found["placed"]) == {"1"}, found
    fast = found["other"].get("0", 0) / sum(found["other"].values())
    guest.figure("other_fast_share", fast)
    assert fast > 0.9, found


HEAPS = """
import json
from array import array
import tierwise.emt as emt
from tierwise.emt.native import NativeKernel

def made():
    # Eight a page, in pools of their own.
    return [bytes([n & 255]) * 440 for n in range(20000)]

before = made()
# All of the fast memory is to stay free, so that the cold heap borrows nothing.
emt.segregate(slow_nodes=[1], mem_pressure="64GiB")
with emt.cold():
    cold = made()
with emt.hot():
    hot = made()
with emt.cold():
    large = bytearray(8 << 20)
large[:] = bytes([1]) * len(large)
found = {"before": before, "cold": cold, "hot": hot, "rebuilt": emt.rebuilt(before, "cold")}
for name, part in found.items():
    nodes = NativeKernel().nodes(array("Q", sorted({id(item) & ~4095 for item in part})))
    found[name] = [sum(node == n for node in nodes) / len(nodes) for n in (0, 1)]
print(json.dumps([found, emt.where(large)]))
"""


@test(boot="hmat", timeout_s=240)
def emt_binds_heaps_to_tiers(guest: Guest) -> None:
    """Cold objects and copies of others are on the slow node, hot ones on the fast node."""
    found, large = _python(guest, HEAPS, "numactl", "--preferred=0")
    assert found["before"][0] > 0.99 and found["hot"][0] > 0.99, found
    assert found["cold"][1] > 0.99 and found["rebuilt"][1] > 0.99, found
    assert set(large) == {"1"}, large


LENDING = """
import json
from array import array
import tierwise.emt as emt
from tierwise.emt.heaps import HEAPS
from tierwise.emt.native import NativeKernel
from tierwise.emt.topology import tiers

topology = tiers((1,), ())

def made():
    return [bytes([n & 255]) * 440 for n in range(40000)]

def shares():
    found = {}
    for name, part in parts.items():
        nodes = NativeKernel().nodes(array("Q", sorted({id(item) & ~4095 for item in part})))
        found[name] = [sum(node == n for node in nodes) / len(nodes) for n in (0, 1)]
    return found

emt.segregate(slow_nodes=[1])
parts = {}
with emt.cold():
    parts["cold"] = made()
with emt.hot():
    parts["hot"] = made()
found = {"lent": shares()}
HEAPS.follow(topology.free_fast_bytes() + (64 << 20), None)
found["made way"] = shares()
HEAPS.swap()
found["swapped"] = shares()
print(json.dumps(found))
"""


@test(boot="hmat", timeout_s=240)
def emt_lends_cold_heap_fast_memory(guest: Guest) -> None:
    """Cold objects are on the fast node while it has free memory, and leave it for others; heaps
    that swap exchange their nodes."""
    found = _python(guest, LENDING, "numactl", "--preferred=0")
    assert found["lent"]["cold"][0] > 0.99 and found["lent"]["hot"][0] > 0.99, found
    assert found["made way"]["cold"][1] > 0.99 and found["made way"]["hot"][0] > 0.99, found
    assert found["swapped"]["cold"][0] > 0.99 and found["swapped"]["hot"][1] > 0.99, found


# Both mappings are in slow memory and used alike. One of them is placed there, which the daemon
# hears.
SHARING = """
import faulthandler, json, mmap, time
import tierwise.emt as emt

faulthandler.dump_traceback_later(LIMIT, exit=True)

def made():
    memory = mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[:] = bytes(len(memory))
    return memory

def shared():
    while True:
        try:
            return emt.share("SOCKET")
        except emt.Unavailable as error:
            # The daemon finds its tenants once in a round.
            if "belongs to no tenant" not in str(error):
                raise
            time.sleep(0.1)

placed, other = made(), made()
first = shared()
held = emt.place(placed, "slow", slow_nodes=[1]).held
left, last = 0, time.monotonic()
while emt.where(other).get(1, 0) > 0.05 * len(other) or left < 7 << 20:
    for thing in (placed, other):
        for n in range(0, len(thing), 2048):
            thing[n] = 1
    time.sleep(0.001)
    # The daemon counts what it leaves at its next survey of this process.
    if time.monotonic() > last + 0.5:
        left, last = emt.share("SOCKET").placed_bytes, time.monotonic()
print(json.dumps({
    "held": held, "placed": emt.where(placed), "other": emt.where(other),
    "tenant": first.tenant, "cap": first.cap_bytes, "left": left,
}))
""".replace("LIMIT", str(LIMIT_S))


@test(boot="hmat", timeout_s=240, needs=("tierwised",))
def emt_and_daemon_share_what_is_placed(guest: Guest) -> None:
    """Of two mappings in slow memory that are used alike, the daemon promotes the one that emt has
    not placed, and leaves the other; emt reads the tenant's cap."""
    group, socket = guest.cgroup("emt"), guest.directory / "tenants" / "socket"
    tenants = [("python", f"cgroup = '{group.name}'\ncap = '64MiB'")]
    config = configuration(guest, tenants=tenants)
    config = config.replace("[control]\n", f'[control]\ntenants = "{socket}"\n')
    file = guest.directory / "program.py"
    file.write_text(SHARING.replace("SOCKET", str(socket)))
    words = ("env", f"PYTHONPATH={SITE}", "numactl", "--preferred=1", "python3", str(file))
    daemon = guest.tierwised(config)
    guest.wait_until(socket.exists, LIMIT_S, daemon.printed)
    program = guest.start(*words, cgroup=group)
    status = program.wait(LIMIT_S + 20)
    assert status == 0, f"{status}: {program.printed()}\n{daemon.printed()}"
    found = program.json_lines()[-1]
    assert (found["tenant"], found["cap"], found["held"]) == ("python", 64 << 20, True), found
    assert set(found["placed"]) == {"1"}, found
    fast = found["other"].get("0", 0) / sum(found["other"].values())
    guest.figure("other_fast_share", fast)
    guest.figure("left_mib", found["left"] / (1 << 20))
    assert fast > 0.9, found
