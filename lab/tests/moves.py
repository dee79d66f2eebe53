"""Tests that the kernel moves pages on request, and reports their nodes correctly."""

from tierguest import Guest, test
from tierguest.placement import where

MIB = 1 << 20
PAGES_PER_MIB = 256


@test(boot="hmat", smoke=True)
def move_pages_moves_every_page(guest: Guest) -> None:
    """A bare loop of move_pages moves all pages to a node and back; its rate is the reference for
    movers."""
    for batch in (32, 512, 4096):
        rounds = guest.json_lines("moveloop", "32", str(batch), "4")
        for line in rounds:
            assert line["placed"] == line["pages"] == 32 * PAGES_PER_MIB, line
        best = max(line["pages_per_s"] for line in rounds)
        guest.figure(f"pages_per_s_batch_{batch}", best)


@test(boot="hmat")
def huge_pages_move_whole(guest: Guest) -> None:
    """A move of the first page of a huge page moves all of it."""
    for line in guest.json_lines("moveloop", "32", "4", "2", "huge"):
        assert line["placed"] == line["pages"], line


@test(boot="hmat")
def where_agrees_with_numa_stat(guest: Guest) -> None:
    """The page counts of `where` equal the bytes of the cgroup's statistics."""
    group = guest.cgroup("placed")
    stairs = guest.stairs(group, mib=48, hot_mib=8, pattern="fixed", node=1)
    assert stairs.region().nodes[:2] == (0, 48 * PAGES_PER_MIB), stairs.describe()
    fast, slow = group.on_nodes()
    assert slow >= 48 * MIB, f"memory.numa_stat has {slow} bytes on node 1"
    # Stack and heap of a static program.
    assert fast < 1 * MIB, f"memory.numa_stat has {fast} bytes on node 0"
    bound = where(stairs.pid, [stairs.truth().hot])[0]
    assert bound.share(1) == 1.0, bound


@test(boot="hmat")
def reclaim_demotes_a_groups_pages(guest: Guest) -> None:
    """With demotion on, memory.reclaim moves a group's pages to the slow node instead of reclaiming
    them."""
    guest.demotion(True)
    group = guest.cgroup("reclaimed")
    stairs = guest.stairs(group, mib=64, hot_mib=1, pattern="fixed", node=0)
    before = group.on_nodes()
    demoted = {name: count for name, count in guest.vmstat().items() if name.startswith("pgdemote")}
    group.reclaim(16 * MIB)
    after = group.on_nodes()
    assert after[1] - before[1] >= 12 * MIB, f"before {before}, after {after} bytes by node"
    assert abs(sum(after) - sum(before)) < 2 * MIB, f"before {before}, after {after} bytes by node"
    rise = sum(guest.vmstat()[name] - count for name, count in demoted.items())
    assert rise >= 12 * PAGES_PER_MIB, f"/proc/vmstat counts {rise} demoted pages"
    assert stairs.region().present == 64 * PAGES_PER_MIB, stairs.describe()


@test(boot="flat")
def reclaim_does_not_demote_within_a_tier(guest: Guest) -> None:
    """Nodes of one tier have no demotion target, with demotion on or off."""
    guest.demotion(True)
    group = guest.cgroup("reclaimed")
    guest.stairs(group, mib=64, hot_mib=1, pattern="fixed", node=0)
    group.reclaim(16 * MIB)
    assert group.on_nodes()[1] == 0, group.on_nodes()


@test(boot="hmat")
def reclaim_leaves_locked_pages(guest: Guest) -> None:
    """mlocked pages are not demoted by reclaim."""
    guest.demotion(True)
    group = guest.cgroup("locked")
    stairs = guest.stairs(group, mib=32, hot_mib=1, pattern="fixed", node=0, lock=1)
    group.reclaim(16 * MIB)
    assert stairs.region().share(0) == 1.0, stairs.describe()
