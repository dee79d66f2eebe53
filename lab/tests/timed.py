"""Tests that in timed mode the slow node is slower by the configured factor, and that misses are
counted."""

import time

from tierguest import Guest, test

# The latencies of node 0 and 1 that the plugin charges (tierlab/topology.py).
LATENCY_NS = (90, 220)
# An instruction of the guest is a nanosecond of its clock, and the chase's loop has four.
LOOP_NS = 4
# Boot's kernel workers share the one CPU for the first seconds. This wait takes no time, because an
# idle guest's clock jumps.
SETTLE_S = 10
MIB = 1 << 20


@test(boot="timed", smoke=True)
def latencies_are_those_of_the_nodes(guest: Guest) -> None:
    """A pointer chase over four times the cache takes each node's latency; one within the cache
    takes none."""
    time.sleep(SETTLE_S)
    for node in (0, 1):
        seen = min(
            line["ns_per_access"]
            for line in guest.json_lines("chase", "16384", str(node), "500000", "2")
        )
        guest.figure(f"node{node}_ns", seen)
        expected = LATENCY_NS[node] + LOOP_NS
        assert abs(seen - expected) < 0.1 * expected, (
            f"node {node}: {seen} ns, expected {expected} ns within 10 %"
        )
        cached = min(
            line["ns_per_access"]
            for line in guest.json_lines("chase", "1024", str(node), "500000", "2")
        )
        guest.figure(f"node{node}_cached_ns", cached)
        assert cached < 2 * LOOP_NS, f"node {node}: {cached} ns within the cache"


@test(boot="timed")
def misses_are_counted_where_they_happen(guest: Guest) -> None:
    """By the plugin's counts per page, the hot part of stairs has the misses, and the rest has
    none."""
    time.sleep(SETTLE_S)
    stairs = guest.stairs(mib=48, hot_mib=16, hot_at_mib=16, pattern="fixed", node=1, phase_s=2)
    truth = guest.truth()
    ranges = stairs.truth()
    # The program continues between two readings. The node is read first and last, so that its
    # interval contains the others.
    nodes = truth.misses()
    hot, cold = (
        truth.of_ranges(stairs.pid, [ranges.hot]),
        truth.of_ranges(stairs.pid, ranges.cold()),
    )
    time.sleep(2)
    hot = truth.of_ranges(stairs.pid, [ranges.hot]) - hot
    cold = truth.of_ranges(stairs.pid, ranges.cold()) - cold
    slow = truth.misses()[1].loads - nodes[1].loads
    guest.figure("hot_misses", hot)
    guest.figure("cold_misses", cold)
    assert hot > 100_000, f"{hot} misses in the hot part"
    assert cold < hot / 1000, f"{cold} misses in the cold part, {hot} in the hot"
    assert slow >= hot, f"node 1 had {slow} load misses, the hot part, which is there, {hot}"


@test(boot="timed")
def placement_changes_the_run_time(guest: Guest) -> None:
    """The graph kernel, bound to the slow node, takes longer than bound to the fast one, and
    computes the same."""
    time.sleep(SETTLE_S)
    rounds = [
        guest.json_lines(
            "numactl", f"--membind={node}", "/lab/bin/graph", "19", "8", "2", within_s=300
        )[1:]
        for node in (0, 1)
    ]
    fast, slow = (sum(line["seconds"] for line in lines) for lines in rounds)
    guest.figure("slow_over_fast", slow / fast)
    assert slow > 1.05 * fast, f"{slow:.3f} s on the slow node, {fast:.3f} s on the fast"
    assert [line["checksum"] for line in rounds[0]] == [line["checksum"] for line in rounds[1]], (
        rounds
    )
