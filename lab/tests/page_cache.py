"""Tests of page cache, which need not be mapped by a process and which move_pages therefore cannot
move."""

import time
from pathlib import Path

from tierguest import Guest, test
from tierguest.cgroup import ROOT, Cgroup
from tierguest.configuration import configuration
from tierguest.files import write

MIB = 1 << 20
READ_MIB = 128
CAP_MIB = 48
# The root disk, which is larger than the data read: its blocks are charged to the group that reads
# them.
DISK = "/dev/nvme0n1"
WITHIN_S = 200
# Several more of the daemon's rounds.
SETTLES_S = 12
KDAMONDS = Path("/sys/kernel/mm/damon/admin/kdamonds")
MGLRU = Path("/sys/kernel/mm/lru_gen/enabled")
# Blocks that are cached already are not read again, and stay charged to the group that read them.
DROP_CACHES = Path("/proc/sys/vm/drop_caches")


@test(boot="hmat", needs=("tierwised",), timeout_s=400, smoke=True)
def page_cache_above_a_cap_is_demoted(guest: Guest) -> None:
    """With `page_cache = true` the fast node keeps a group's page cache up to its cap, and the rest
    is demoted to the slow node and not dropped."""
    write(DROP_CACHES, 1)
    group = guest.cgroup("reader")
    reads = f"dd if={DISK} of=/dev/null bs=1M count={READ_MIB} status=none; exec sleep 1000"
    guest.start("bash", "-c", reads, cgroup=group)
    guest.wait_until(
        lambda: sum(group.on_nodes("file")) >= 0.99 * READ_MIB * MIB,
        60,
        lambda: str(group.on_nodes("file")),
    )
    before = group.on_nodes("file")
    assert before[0] > 2 * CAP_MIB * MIB, f"it must start on the fast node: {before}"
    config = configuration(
        guest,
        "tierwise",
        [("reader", f"cgroup = 'reader'\ncap = '{CAP_MIB}MiB'")],
        more="[move]\npage_cache = true\n",
    )
    daemon = guest.tierwised(
        config.replace("release_damon = true", "release_damon = true\ndemotion = true")
    )

    def capped() -> bool:
        assert daemon.running(), f"tierwised ended: {daemon.printed()}"
        return group.on_nodes("file")[0] <= (CAP_MIB + 2) * MIB

    guest.figure(
        "seconds",
        guest.wait_until(
            capped, WITHIN_S, lambda: f"{group.on_nodes('file')}; {daemon.printed()[-1500:]}"
        ),
    )
    fast, slow = after = group.on_nodes("file")
    guest.figure("fast_mib", fast / MIB)
    guest.figure("slow_mib", slow / MIB)
    assert sum(after) >= 0.95 * sum(before), f"cache was dropped: before {before}, after {after}"
    assert fast >= (CAP_MIB - 8) * MIB, (
        f"more page cache was demoted than the excess over the cap: {after}"
    )


# So small that an emulated CPU reads it several times a second.
HOT_MIB = 12
HOT_CAP_MIB = 9
# Page cache that a group outside the tenants reads repeatedly: it is equally hot, but must stay in
# place.
OTHERS_MIB = 8


def _running() -> list[str]:
    """Returns the kdamonds that are on."""
    places = [directory for directory in KDAMONDS.iterdir() if directory.is_dir()]
    return [
        directory.name for directory in places if (directory / "state").read_text().strip() == "on"
    ]


def _read_again_and_again(guest: Guest, name: str, mib: int, skip_mib: int) -> Cgroup:
    """Starts a group that reads a part of the disk in a loop. The part is cached on the slow node,
    on which the group starts."""
    write(ROOT / "cgroup.subtree_control", "+cpuset")
    group = guest.cgroup(name)
    write(group.path / "cpuset.mems", "1")
    part = f"bs=64k count={mib * 16} skip={skip_mib * 16}"
    reads = f"while :; do dd if={DISK} of=/dev/null {part} status=none; done"
    guest.start("bash", "-c", reads, cgroup=group)
    guest.wait_until(
        lambda: sum(group.on_nodes("file")) >= 0.95 * mib * MIB,
        60,
        lambda: str(group.on_nodes("file")),
    )
    # New pages may be on any node from now on; the cached pages stay in place.
    write(group.path / "cpuset.mems", "0-1")
    return group


@test(boot="hmat", needs=("tierwised", "tierwise"), timeout_s=400)
def page_cache_in_use_is_promoted(guest: Guest) -> None:
    """With `promote_page_cache = true`, page cache that a tenant reads repeatedly is promoted up to
    its cap, and that of other groups is not."""
    write(DROP_CACHES, 1)
    # With MGLRU, a read of a file leaves no mark that DAMON could find.
    write(MGLRU, 0)
    group = _read_again_and_again(guest, "reader", HOT_MIB, 0)
    others = _read_again_and_again(guest, "others", OTHERS_MIB, HOT_MIB)
    before = group.on_nodes("file"), others.on_nodes("file")
    assert before[0][1] > 0.9 * HOT_MIB * MIB and before[1][1] > 0.9 * OTHERS_MIB * MIB, (
        f"it must start on the slow node: {before}"
    )
    config = configuration(
        guest,
        "tierwise",
        [("reader", f"cgroup = 'reader'\ncap = '{HOT_CAP_MIB}MiB'")],
        more="[move]\npromote_page_cache = true\n",
    )
    daemon = guest.tierwised(config)

    def promoted() -> bool:
        assert daemon.running(), f"tierwised ended: {daemon.printed()}"
        return group.on_nodes("file")[0] >= 6 * MIB

    guest.figure(
        "seconds",
        guest.wait_until(
            promoted, WITHIN_S, lambda: f"{group.on_nodes('file')}; {daemon.printed()[-1500:]}"
        ),
    )
    time.sleep(SETTLES_S)
    fast = group.on_nodes("file")[0]
    guest.figure("fast_mib", fast / MIB)
    guest.figure("others_fast_mib", others.on_nodes("file")[0] / MIB)
    assert fast <= (HOT_CAP_MIB + 1) * MIB, (
        f"more than its cap was promoted: {group.on_nodes('file')}"
    )
    assert others.on_nodes("file")[0] - before[1][0] <= 2 * MIB, (
        f"page cache of others was promoted: {others.on_nodes('file')}, before {before[1]}"
    )
    # After a crash `tierwise restore` stops the kdamonds that promote, which have their own record.
    daemon.kill()
    assert _running(), "a killed daemon's kdamonds must continue to run"
    guest.run("tierwise", "restore", "--state", str(guest.directory / "state"))
    assert not _running(), f"kdamonds that still run: {_running()}"
