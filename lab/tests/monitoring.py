"""Each access monitoring source against a program with a known hot part. The program starts on the
slow node and would fit on the fast one; the policy promotes every page that is found accessed
repeatedly."""

from tierguest import Guest, test
from tierguest.configuration import configuration
from tierguest.stairs import Stairs

ALL_MIB = 128
HOT_MIB = 32
# Of the hot part that has to be found, and of the rest that may be taken for it: DAMON's regions
# end where they happen to.
MIN_FOUND = 0.95
MAX_MISTAKEN = 0.10
LIMIT_S = 300


def _finds(
    guest: Guest,
    source: str,
    min_found: float = MIN_FOUND,
    max_mistaken: float = MAX_MISTAKEN,
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
    daemon = guest.tierwised(
        configuration(guest, "multi-clock", [("shop", "cgroup = 'shop'")], source=source)
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
    assert mistaken <= max_mistaken, f"{stairs.describe()}; {daemon.printed()[-1500:]}"


@test(boot="hmat", needs=("tierwised",), timeout_s=400, smoke=True)
def damon_on_processes_finds_it(guest: Guest) -> None:
    """DAMON on a process's addresses: 95 % of the hot part, and little else."""
    _finds(guest, "damon-vaddr")


@test(boot="hmat", needs=("tierwised",), timeout_s=400)
def soft_dirty_finds_it(guest: Guest) -> None:
    """Soft-dirty bits, of a program that writes: 95 % of the hot part, and little else."""
    _finds(guest, "soft-dirty", stores=100)


@test(boot="hmat", needs=("tierwised",), timeout_s=400)
def damon_on_physical_memory_finds_it(guest: Guest) -> None:
    """DAMON on physical memory, its regions looked up in the process's page tables: most of it, and
    not much else."""
    # A thousand regions over two gigabytes are two megabytes each. Neighbouring base pages in
    # physical memory are unrelated: depending on how scattered the guest's memory was, 2 to 64 % of
    # the cold part were taken for hot, where chance would take four fifths. So: huge pages.
    _finds(guest, "damon-paddr", min_found=0.8, max_mistaken=0.4, huge=1)


@test(boot="hmat", needs=("tierwised",), timeout_s=120)
def unavailable_sources_are_reported(guest: Guest) -> None:
    """The idle-page bitmap and the CPU's samples, which a cloud kernel in QEMU lacks: the daemon
    only observes, and reports the remedy."""
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
