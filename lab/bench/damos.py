"""DAMON's own tiering: migrate_hot to the fast node and migrate_cold to the slow one, by schemes of
one kdamond.

If the kernel has the two actions for virtual addresses (7.x), DAMON monitors the program's
addresses. 6.12 has them for physical addresses only: DAMON monitors all memory there, and a filter
restricts the schemes to the program's cgroup.
"""

from dataclasses import dataclass
from pathlib import Path

from tierguest import Guest
from tierguest.cgroup import Cgroup
from tierguest.damon import AGGREGATE_US, DAMON, SAMPLE_US, make_room
from tierguest.files import read, write

KDAMOND = DAMON / "0"
CONTEXT = KDAMOND / "contexts/0"
MEMORY = Path("/sys/devices/system/memory")
# The largest numbers of their types are the widest bounds.
WIDEST_SIZE = 2**64 - 1
WIDEST_COUNT = 2**32 - 1
# The kernel module mem_tier, an example of this, and DAMON's documentation bound their regions by
# 10 and 1000.
REGIONS_MAX = 1000


@dataclass(frozen=True)
class Scheme:
    """A scheme that migrates regions to a node if they were accessed this often in each of `age`
    aggregations."""

    action: str
    accesses: tuple[int, int]
    min_age: int
    node: int


SCHEMES = (
    # The cold scheme comes first, so that it frees memory for the other. It applies to regions that
    # at most one of 20 checks found accessed, for 2 s, because runs take some ten. Zero checks
    # would be too strict: in a program that accesses all of its memory sometimes, nothing would be
    # cold.
    Scheme("migrate_cold", (0, 1), 20, 1),
    # It applies to regions that a quarter of 20 checks found accessed, twice in a row: by then
    # DAMON has split regions of hot and cold pages.
    Scheme("migrate_hot", (5, WIDEST_COUNT), 2, 0),
)


def start_damos(guest: Guest, group: Cgroup, pid: int) -> None:
    """Starts DAMON's tiering for a process, and switches the kernel's own statistics off.
    `end_damos` ends it."""
    make_room()
    write(DAMON / "nr_kdamonds", 1)
    write(KDAMOND / "contexts/nr_contexts", 1)
    by_process = guest.kernel != "6.12"
    write(CONTEXT / "operations", "vaddr" if by_process else "paddr")
    for name, value in (
        ("sample_us", SAMPLE_US),
        ("aggr_us", AGGREGATE_US),
        ("update_us", 10 * AGGREGATE_US),
    ):
        write(CONTEXT / "monitoring_attrs/intervals" / name, value)
    write(CONTEXT / "monitoring_attrs/nr_regions/max", REGIONS_MAX)
    write(CONTEXT / "targets/nr_targets", 1)
    if by_process:
        write(CONTEXT / "targets/0/pid_target", pid)
    else:
        _watch_all_memory()
    write(CONTEXT / "schemes/nr_schemes", len(SCHEMES))
    for number, scheme in enumerate(SCHEMES):
        _write_scheme(CONTEXT / f"schemes/{number}", scheme, "" if by_process else f"/{group.name}")
    write(KDAMOND / "state", "on")


def end_damos() -> None:
    """Switches DAMON's tiering off, if it is on."""
    if KDAMOND.exists():
        if read(KDAMOND / "state") == "on":
            write(KDAMOND / "state", "off")
        write(DAMON / "nr_kdamonds", 0)


def _watch_all_memory() -> None:
    block = int(read(MEMORY / "block_size_bytes"), 16)
    blocks = [
        int(directory.name.removeprefix("memory")) for directory in MEMORY.glob("memory[0-9]*")
    ]
    regions = CONTEXT / "targets/0/regions"
    write(regions / "nr_regions", 1)
    write(regions / "0/start", min(blocks) * block)
    write(regions / "0/end", (max(blocks) + 1) * block)


def _write_scheme(directory: Path, scheme: Scheme, group: str) -> None:
    write(directory / "action", scheme.action)
    write(directory / "target_nid", scheme.node)
    pattern = directory / "access_pattern"
    write(pattern / "sz/max", WIDEST_SIZE)
    write(pattern / "nr_accesses/min", scheme.accesses[0])
    write(pattern / "nr_accesses/max", scheme.accesses[1])
    write(pattern / "age/min", scheme.min_age)
    write(pattern / "age/max", WIDEST_COUNT)
    if group:
        write(directory / "filters/nr_filters", 1)
        write(directory / "filters/0/type", "memcg")
        write(directory / "filters/0/memcg_path", group)
        # A filter excludes its matches: here, everything outside the group.
        write(directory / "filters/0/matching", "N")
