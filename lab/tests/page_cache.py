"""Page cache, which no process has to map and which move_pages therefore cannot move."""

from tierguest import Guest, test
from tierguest.configuration import configuration

MIB = 1 << 20
READ_MIB = 128
CAP_MIB = 48
# The root disk, which is larger: its blocks are cached in the name of whoever reads them.
DISK = "/dev/nvme0n1"
WITHIN_S = 200


@test(boot="hmat", needs=("tierwised",), timeout_s=400)
def page_cache_above_a_cap_is_demoted(guest: Guest) -> None:
    """`page_cache = true`: of what a group has read the fast node keeps its cap, and the rest is on the slow one, not dropped."""
    group = guest.cgroup("reader")
    reads = f"dd if={DISK} of=/dev/null bs=1M count={READ_MIB} status=none; exec sleep 1000"
    guest.start("bash", "-c", reads, cgroup=group)
    guest.wait_until(lambda: sum(group.on_nodes("file")) >= 0.99 * READ_MIB * MIB, 60, lambda: str(group.on_nodes("file")))
    before = group.on_nodes("file")
    assert before[0] > 2 * CAP_MIB * MIB, f"it was to begin on the fast node: {before}"
    config = configuration(
        guest, "tierwise", [("reader", f"cgroup = 'reader'\ncap = '{CAP_MIB}MiB'")], more="[move]\npage_cache = true\n"
    )
    daemon = guest.tierwised(config.replace("release_damon = true", "release_damon = true\ndemotion = true"))

    def capped() -> bool:
        assert daemon.running(), f"tierwised ended: {daemon.said()}"
        return group.on_nodes("file")[0] <= (CAP_MIB + 2) * MIB

    guest.figure("seconds", guest.wait_until(capped, WITHIN_S, lambda: f"{group.on_nodes('file')}; {daemon.said()[-1500:]}"))
    fast, slow = after = group.on_nodes("file")
    guest.figure("fast_mib", fast / MIB)
    guest.figure("slow_mib", slow / MIB)
    assert sum(after) >= 0.95 * sum(before), f"cache was dropped: before {before}, after {after}"
    assert fast >= (CAP_MIB - 8) * MIB, f"more was demoted than was above the cap: {after}"
