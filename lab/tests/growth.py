"""Test of a program that grows into free memory of the fast node: memory allocated after its share
was computed stays fast."""

import time

from tierguest import Guest, test
from tierguest.ballast import free_mib
from tierguest.configuration import configuration
from tierguest.files import write
from tierguest.settings import PER_CPU_LISTS

MIB = 1 << 20
# Half of the fast node, so that the node never lacks free memory.
GROWS_TO_MIB = 480
STEP_MIB = 10
STEP_S = 0.5
# Two of the daemon's blocks have 4 MiB; the kernel places a few pages of a starting program on any
# node.
ELSEWHERE_MIB = 1
# The growth takes 24 s on an idle host; a busy host's guests get less CPU time.
LIMIT_S = 300
# After the growth, long enough for several decisions and slices.
AFTERWARDS_S = 5

GROWER = f"""
import mmap, time
kept = []
for step in range({GROWS_TO_MIB // STEP_MIB}):
    piece = mmap.mmap(-1, {STEP_MIB * MIB}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    piece.write(b"x" * {STEP_MIB * MIB})
    kept.append(piece)
    until = time.monotonic() + {STEP_S}
    while time.monotonic() < until:
        # A third of it is used repeatedly; the rest is never used again.
        for piece in kept[::3]:
            piece[:: mmap.PAGESIZE]
        time.sleep(0.01)
print("grown", flush=True)
while True:
    for piece in kept[::3]:
        piece[:: mmap.PAGESIZE]
    time.sleep(0.01)
"""


@test(boot="hmat", needs=("tierwised",), timeout_s=500)
def growth_into_free_memory_stays_fast(guest: Guest) -> None:
    """tierwise: a program that allocates 20 MiB/s in a fast node with free memory is never
    demoted."""
    write(PER_CPU_LISTS, 100)
    group = guest.cgroup("grower")
    daemon = guest.tierwised(
        configuration(guest, "tierwise", tenants=[("grower", "cgroup = 'grower'")])
    )
    grower = guest.start("python3", "-c", GROWER, cgroup=group)
    most = 0.0

    def slow_mib() -> float:
        return group.on_nodes()[1] / MIB

    def saying() -> str:
        fast, slow = (held / MIB for held in group.on_nodes())
        return (
            f"{fast:.0f} MiB fast, {slow:.1f} slow, {free_mib(0):.0f} free; "
            f"tierwised printed: {daemon.printed()[-1500:]}"
        )

    def grown() -> bool:
        nonlocal most
        assert daemon.running(), f"tierwised ended: {daemon.printed()}"
        assert grower.running(), f"the program ended: {grower.printed()}"
        most = max(most, slow_mib())
        assert most <= ELSEWHERE_MIB, f"demoted with memory free: {saying()}"
        return "grown" in grower.printed()

    guest.figure("seconds", guest.wait_until(grown, LIMIT_S, saying, every_s=0.25))
    # The next shares are computed in this time, and must not cause demotion.
    time.sleep(AFTERWARDS_S)
    assert grown()
    guest.figure("most_slow_mib", most)
