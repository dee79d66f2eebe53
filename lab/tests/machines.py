"""Tests that the machines match their descriptions."""

from pathlib import Path

from tierguest import Guest, test
from tierguest.files import read

NODES = Path("/sys/devices/system/node")
BUILT_IN_LATENCY_NS = (90, 220)


@test(boot="hmat", smoke=True)
def hmat_gives_two_tiers(guest: Guest) -> None:
    """Described by HMAT, node 1 becomes a slower tier below node 0."""
    guest.figure("up_s", guest.uptime_s())
    assert guest.memory_tiers() == ["0", "1"], guest.memory_tiers()
    found = [int(read(NODES / f"node{node}/access0/initiators/read_latency")) for node in (0, 1)]
    assert found == list(BUILT_IN_LATENCY_NS), f"HMAT described {found} ns"


@test(boot="flat")
def flat_gives_one_tier(guest: Guest) -> None:
    """Without HMAT both nodes are in one tier, although their distance is described."""
    assert guest.memory_tiers() == ["0-1"], guest.memory_tiers()
    assert read(NODES / "node0/distance").split() == ["10", "20"]


@test(boot="single")
def single_has_one_node(guest: Guest) -> None:
    """The machine has one node, so no page can be moved."""
    assert read(NODES / "has_memory") == "0"


@test(boot="hmat")
def the_second_node_has_no_processor(guest: Guest) -> None:
    """Node 1 has only memory, like CXL memory."""
    assert read(NODES / "has_cpu") == "0"
    assert read(NODES / "has_memory") == "0-1"
