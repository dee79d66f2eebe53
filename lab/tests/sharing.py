"""Tests of shares of the fast node: floors and caps, read from the kernel's own count
(memory.numa_stat).

The sizes are those of Equilibria's validation (section V-B) at 2 MiB for its gigabyte: 480 MiB of
fast memory for three tenants that use all that they have.
"""

import signal
from collections.abc import Sequence

from tierguest import Guest, test
from tierguest.ballast import free_mib, low_watermark_mib
from tierguest.cgroup import Cgroup
from tierguest.configuration import configuration
from tierguest.daemon import Tierwised
from tierguest.files import write
from tierguest.settings import PER_CPU_LISTS
from tierguest.stairs import Stairs

MIB = 1 << 20
FAST_MIB = 480
# Other free memory of the node at the start: below the low watermark, and for the programs' code
# and page tables.
KEPT_MIB = 44
TOLERANCE_MIB = FAST_MIB * 0.05
# An idle host needs half a minute; a busy host's guests get less CPU time.
CONVERGENCE_S = 600
# A program that sleeps for half of its time leaves CPU time for the others.
PAUSE_US = 1000
# An emulated program accesses each of its pages only some ten times a second. This longer sampling
# interval finds these accesses.
SAMPLING_MS = 50
NAMES = ("first", "second", "third")


class Sharing:
    """Running tenants, and the daemon that shares the fast node among them."""

    def __init__(self, guest: Guest) -> None:
        self.guest = guest
        self.groups: dict[str, Cgroup] = {}
        self.stairs: dict[str, Stairs] = {}
        self.daemon: Tierwised | None = None
        # A hundredth of a zone: memory on per-CPU lists causes no memory pressure.
        write(PER_CPU_LISTS, 100)
        guest.ballast(FAST_MIB + KEPT_MIB)

    def start(self, name: str, mib: int) -> None:
        """Starts a tenant that uses all of this much memory."""
        self.groups[name] = self.guest.cgroup(name)
        options = {
            "mib": mib,
            "hot_mib": mib,
            "pattern": "fixed",
            "pause_us": PAUSE_US,
            "forget": 1,
        }
        self.stairs[name] = self.guest.stairs(self.groups[name], **options)

    def manage(self, policy: str, lines: Sequence[tuple[str, str]]) -> None:
        """Starts the daemon, with further lines for each tenant."""
        tenants = [(name, f"cgroup = '{name}'\n{more}") for name, more in lines]
        config = configuration(self.guest, policy, tenants)
        config = config.replace("sampling_ms = 10", f"sampling_ms = {SAMPLING_MS}")
        self.daemon = self.guest.tierwised(
            config.replace("aggregation_ms = 200", f"aggregation_ms = {10 * SAMPLING_MS}")
        )

    def fast_mib(self, name: str) -> float:
        """Returns the MiB of a tenant's memory on the fast node, by the kernel's count."""
        return self.groups[name].on_nodes()[0] / MIB

    def describe(self) -> str:
        """Describes the tenants' memory and the daemon's output, for a failure's message."""
        held = ", ".join(f"{name} {self.fast_mib(name):.0f}" for name in self.groups)
        printed = self.daemon.printed()[-1500:] if self.daemon else "nothing"
        return f"MiB on the fast node: {held}; tierwised printed: {printed}"

    def wait_for(self, expected: dict[str, float]) -> None:
        """Waits until each tenant holds the expected memory, within the tolerance."""

        def near() -> bool:
            assert self.daemon and self.daemon.running(), f"tierwised ended: {self.describe()}"
            return all(
                abs(self.fast_mib(name) - mib) <= TOLERANCE_MIB for name, mib in expected.items()
            )

        self.guest.figure(
            "seconds", self.guest.wait_until(near, CONVERGENCE_S, self.describe, every_s=1)
        )
        for name in expected:
            self.guest.figure(f"{name}_fast_mib", self.fast_mib(name))


def _floors(guest: Guest, policy: str, sizes: Sequence[int]) -> None:
    """Gives each tenant a third of the fast memory as its floor. The first tenant gets the memory
    that the others do not need."""
    sharing = Sharing(guest)
    for name, mib in zip(NAMES, sizes, strict=True):
        sharing.start(name, mib)
    before = [sharing.fast_mib(name) for name in NAMES]
    # The memory to share is known after the kernel's own allocations.
    shared = sum(before) + free_mib(0) - low_watermark_mib(0)
    guest.figure("shared_mib", shared)
    needed = [min(mib, shared / 3) for mib in sizes]
    expected = [shared - sum(needed[1:]), *needed[1:]]
    assert any(abs(a - b) > TOLERANCE_MIB for a, b in zip(before, expected, strict=True)), (
        f"nothing to do: {before}"
    )
    sharing.manage(policy, [(name, f"floor = '{shared / 3:.0f}MiB'") for name in NAMES])
    sharing.wait_for(dict(zip(NAMES, expected, strict=True)))


@test(boot="hmat", needs=("tierwised",), timeout_s=700, smoke=True)
def tierwise_holds_equal_floors(guest: Guest) -> None:
    """tierwise gives 160 MiB to each of three tenants of 240/180/180 MiB with equal floors and 480
    MiB, although the first ones had more."""
    _floors(guest, "tierwise", (240, 180, 180))


@test(boot="hmat", needs=("tierwised",), timeout_s=700)
def tierwise_donates_unneeded_memory(guest: Guest) -> None:
    """tierwise gives 200/140/140 MiB to tenants of 240/140/140 MiB: two need less than their
    floors, and the first gets the rest."""
    _floors(guest, "tierwise", (240, 140, 140))


@test(boot="hmat", needs=("tierwised",), timeout_s=700)
def a_cap_is_kept(guest: Guest) -> None:
    """A tenant with a cap of 80 MiB is demoted to its cap, even with free memory, and its neighbour
    gets the memory."""
    sharing = Sharing(guest)
    sharing.start("first", 200)
    sharing.start("second", 200)
    before = sharing.fast_mib("first")
    assert before > 80 + TOLERANCE_MIB, f"nothing to cap: {sharing.describe()}"
    sharing.manage("tierwise", [("first", "cap = '80MiB'"), ("second", "")])
    sharing.wait_for({"first": 80, "second": 200})


@test(boot="hmat", needs=("tierwised",), timeout_s=700)
def a_late_starter_is_served(guest: Guest) -> None:
    """Two tenants fill the fast node. A third configured tenant starts later and gets its floor."""
    sharing = Sharing(guest)
    sharing.start("first", 260)
    sharing.start("second", 260)
    sharing.manage("tierwise", [(name, f"floor = '{FAST_MIB // 3}MiB'") for name in NAMES])
    assert sharing.daemon
    daemon = sharing.daemon
    guest.wait_until(lambda: '"third" is not there yet' in daemon.printed(), 120, sharing.describe)
    sharing.start("third", 180)
    guest.figure("began_with_mib", sharing.fast_mib("third"))
    sharing.wait_for({"first": 160, "second": 160, "third": 160})


@test(boot="hmat", needs=("tierwised",), timeout_s=1300)
def a_stopped_program_drains_and_comes_back(guest: Guest) -> None:
    """After SIGSTOP the neighbour that uses memory gets the fast memory; after SIGCONT the program
    gets as large a part of its memory as the neighbour has, within 5 %."""
    sizes = {"first": 200, "second": FAST_MIB}
    sharing = Sharing(guest)
    for name, mib in sizes.items():
        sharing.start(name, mib)
    sharing.manage("tierwise", [(name, "") for name in sizes])
    sharing.stairs["first"].signal(signal.SIGSTOP)
    drained = guest.wait_until(
        lambda: sharing.fast_mib("first") <= TOLERANCE_MIB, CONVERGENCE_S, sharing.describe
    )
    guest.figure("drained_s", drained)
    sharing.stairs["first"].signal(signal.SIGCONT)

    def is_even() -> bool:
        # The two use each of their pages alike, so equal parts make them equally fast. A piece
        # counts more for who has it, so that the last few percent do not change hands.
        first, second = (sharing.fast_mib(name) / mib for name, mib in sizes.items())
        return first >= second - 0.05

    returned = guest.wait_until(is_even, CONVERGENCE_S, sharing.describe)
    guest.figure("returned_s", returned)
    for name in sizes:
        guest.figure(f"{name}_fast_mib", sharing.fast_mib(name))
