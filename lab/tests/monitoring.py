"""Tests of each access monitoring source with a program whose hot part is known. The program starts
on the slow node and would fit on the fast one. The policy promotes every page that checks find
accessed repeatedly."""

from tierguest import Guest, test
from tierguest.configuration import configuration
from tierguest.program import processor_seconds
from tierguest.stairs import Stairs

ALL_MIB = 128
HOT_MIB = 32
# Shares of the hot part that must be found, and of the rest that may be reported as hot: the
# boundaries of DAMON's regions are approximate.
MIN_FOUND = 0.95
MAX_MISTAKEN = 0.10
LIMIT_S = 300


def _finds(
    guest: Guest,
    source: str,
    min_found: float = MIN_FOUND,
    max_mistaken: float = MAX_MISTAKEN,
    budget_percent: float = 100.0,
    **options: object,
) -> None:
    stairs: Stairs = guest.stairs(
        guest.cgroup("shop"),
        mib=ALL_MIB,
        hot_mib=HOT_MIB,
        hot_at_mib=48,
        pattern="fixed",
        node=1,
        **options,
    )
    faults_before = guest.vmstat()["numa_hint_faults"]
    daemon = guest.tierwised(
        configuration(
            guest,
            "multi-clock",
            [("shop", "cgroup = 'shop'")],
            source=source,
            budget_percent=budget_percent,
        )
    )

    def found() -> bool:
        assert daemon.running(), f"tierwised ended: {daemon.printed()}"
        return stairs.hot().share(0) >= min_found

    guest.figure(
        "seconds",
        guest.wait_until(
            found, LIMIT_S, lambda: f"{stairs.describe()}; {daemon.printed()[-1500:]}"
        ),
    )
    mistaken = stairs.cold().share(0)
    guest.figure("hot_found", stairs.hot().share(0))
    guest.figure("cold_taken_for_hot", mistaken)
    guest.figure("daemon_cpu_s", processor_seconds(daemon.pid))
    guest.figure("hint_faults", guest.vmstat()["numa_hint_faults"] - faults_before)
    assert mistaken <= max_mistaken, f"{stairs.describe()}; {daemon.printed()[-1500:]}"


@test(boot="hmat", needs=("tierwised",), timeout_s=400, smoke=True)
def damon_on_processes_finds_it(guest: Guest) -> None:
    """DAMON on a process's addresses finds 95 % of the hot part, and little of the rest."""
    _finds(guest, "damon-vaddr")


@test(boot="hmat", needs=("tierwised",), timeout_s=400)
def hint_faults_find_it(guest: Guest) -> None:
    """Hint faults find 95 % of the hot part, and little of the rest, though all of it is accessed
    now and then."""
    # An emulated fault takes tens of microseconds, and half of the budget is for faults.
    _finds(guest, "hint-faults", budget_percent=300.0, cold=10)


@test(boot="hmat", needs=("tierwised",), timeout_s=400)
def soft_dirty_finds_it(guest: Guest) -> None:
    """Soft-dirty bits of a program that writes find 95 % of the hot part, and little of the
    rest."""
    _finds(guest, "soft-dirty", stores=100)


@test(boot="hmat", needs=("tierwised",), timeout_s=400)
def damon_on_physical_memory_finds_it(guest: Guest) -> None:
    """DAMON on physical memory, with its regions looked up in the process's page tables, finds most
    of the hot part, and not much of the rest."""
    # A thousand regions over two gigabytes have two megabytes each. Neighbouring base pages in
    # physical memory are unrelated: depending on the fragmentation of the guest's memory, 2 to 64 %
    # of the cold part were reported as hot; chance would report four fifths. The test therefore
    # uses huge pages.
    _finds(guest, "damon-paddr", min_found=0.8, max_mistaken=0.4, huge=1)


@test(boot="hmat", needs=("tierwised",), timeout_s=120)
def unavailable_sources_are_reported(guest: Guest) -> None:
    """A cloud kernel in QEMU lacks the idle-page bitmap and the CPU's samples: the daemon only
    observes, and reports the remedy."""
    for source, word in (("idle-bitmap", "CONFIG_IDLE_PAGE_TRACKING"), ("perf", "PEBS")):
        with guest.part() as part:
            daemon = part.tierwised(
                configuration(part, "multi-clock", [("shop", "cgroup = 'shop'")], source=source)
            )
            part.wait_until(
                lambda d=daemon: "only observes" in d.printed(),  # type: ignore[misc]
                60,
                daemon.printed,
            )
            assert word in daemon.printed(), daemon.printed()
