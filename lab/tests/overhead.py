"""Tests of the daemon's cost: CPU time and memory by the number of tenants, and its rate of moving
pages."""

import json
import time

from tierguest import Guest, test
from tierguest.cgroup import Cgroup
from tierguest.configuration import configuration
from tierguest.program import processor_seconds, resident_bytes
from tierguest.stairs import Stairs

MIB = 1 << 20
# The programs are small: the test measures the cost of a tenant, and all programs must fit into the
# guest.
TENANT_MIB = 2
SETTLING_S = 5
MEASURED_S = 12


def _cost(guest: Guest, tenants: int, policy: str = "tierwise") -> None:
    groups: list[Cgroup] = [guest.cgroup(f"t{i}") for i in range(tenants)]
    for group in groups:
        # The programs sleep most of the time, because two emulated CPUs run all of them. The test
        # does not wait for their start.
        words = (f"mib={TENANT_MIB}", "hot_mib=1", "pattern=fixed", "pause_us=1000000")
        guest.start("stairs", *words, cgroup=group)
    names = [(f"t{i}", f"cgroup = 't{i}'") for i in range(tenants)]
    # As shipped: intervals of a second, a budget of a hundredth of a CPU.
    config = configuration(guest, policy, names, budget_percent=1.0)
    config = config.replace("interval_ms = 500", "interval_ms = 1000")
    config = config.replace("sampling_ms = 10", "sampling_ms = 20").replace(
        "aggregation_ms = 200", "aggregation_ms = 400"
    )
    config = config.replace("cap_percent = 300.0", "cap_percent = 3.0")
    daemon = guest.tierwised(config)
    guest.wait_until(lambda: "monitors accesses with" in daemon.printed(), 60, daemon.printed)
    time.sleep(SETTLING_S)
    before = processor_seconds(daemon.pid)
    time.sleep(MEASURED_S)
    assert daemon.running(), daemon.printed()
    used = processor_seconds(daemon.pid) - before
    guest.figure(f"cpu_s_per_minute_{tenants}", used * 60 / MEASURED_S)
    guest.figure(f"rss_mib_{tenants}", resident_bytes(daemon.pid) / MIB)


@test(boot="hmat", needs=("tierwised",), timeout_s=600)
def daemon_cost_by_tenant_count(guest: Guest) -> None:
    """CPU time and resident memory of the daemon with 10, 50 and 200 tenants, with its
    default budget."""
    for tenants in (10, 50, 200):
        with guest.part() as part:
            _cost(part, tenants)
    few, many = guest.figures["rss_mib_10"], guest.figures["rss_mib_200"]
    assert isinstance(few, float) and isinstance(many, float)
    # A tenant takes some tables and its text.
    assert many - few < 20, f"190 more tenants use {many - few:.1f} MiB"


PAGE_BYTES = 4096
# With less memory, the test would measure only the daemon's search for the size of its batches.
MOVED_MIB = 192
# Seconds of settling: boot's kernel workers share the one CPU at first.
SETTLED_S = 10
# Max pages per call of the mover, which it reaches when calls are quick.
BATCH_PAGES = 512


def _bare(guest: Guest, stairs: Stairs) -> float:
    """Returns the pages per second of CPU time of a bare loop over the program's pages, the better
    of two rounds towards the fast node."""
    start, size = stairs.truth().region
    words = (str(size // MIB), str(BATCH_PAGES), "5", str(stairs.pid), str(start))
    lines = [line for line in guest.json_lines("moveloop", *words, within_s=120) if line["to"] == 0]
    rates = sorted(line["pages"] / line["cpu_seconds"] for line in lines)
    asking = sorted(line["pages"] / line["asking_cpu_seconds"] for line in lines)
    guest.figure("asked_pages_per_s", asking[len(asking) // 2])
    return float(rates[len(rates) // 2])


@test(boot="timed", needs=("tierwised", "tierwise"), timeout_s=600)
def moved_pages_per_cpu_second(guest: Guest) -> None:
    """Pages that the daemon moves per second of its CPU time, against a bare move_pages loop over
    the same program's pages.

    The guest is timed, because in function mode CPU time depends on the host's other load.
    """
    time.sleep(SETTLED_S)
    # The loop ends with everything on the slow node.
    stairs = guest.stairs(
        guest.cgroup("shop"), mib=MOVED_MIB, hot_mib=MOVED_MIB, pattern="fixed", node=1
    )
    # Blocks as shipped.
    config = configuration(guest, "multi-clock", [("shop", "cgroup = 'shop'")]).replace(
        'block = "256KiB"', 'block = "2MiB"'
    )
    # The bare loop also runs beside access monitoring, because DAMON takes a part of the guest's
    # CPU time and caches.
    observing = guest.tierwised(config, "--dry-run")
    guest.wait_until(lambda: "monitors accesses with" in observing.printed(), 60, observing.printed)
    bare = _bare(guest, stairs)
    observing.stop()
    guest.figure("bare_pages_per_s", bare)
    daemon = guest.tierwised(config)
    guest.wait_until(
        lambda: stairs.region().share(0) > 0.9,
        120,
        lambda: f"{stairs.describe()}; {daemon.printed()}",
    )
    time.sleep(2)
    view = json.loads(
        guest.run("tierwise", "status", "--json", "--socket", str(guest.directory / "control.sock"))
    )
    moved = view["counters"]["moved_bytes"] / PAGE_BYTES / view["cost"]["moving_seconds"]
    guest.figure("tierwised_pages_per_s", moved)
    guest.figure("share_of_bare", moved / bare)
