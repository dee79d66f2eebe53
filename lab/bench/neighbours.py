"""The tenants of the floors bench: two, eight or thirty batch programs of equal sizes, each with a
floor."""

from dataclasses import dataclass

from .mix import Batch

# Free memory of the fast node before the tenants start: a third of their 180 MiB, and 10 MiB that
# the kernel keeps.
LEFT_MIB = 70
# An equal part of this memory is each tenant's floor: an operator guarantees half of the fast
# memory, and the rest goes where it is of most use. Chosen before any run.
GUARANTEED_MIB = 30
# The first seconds show how a policy finds the hot memory, and do not count.
SETTLING_S = 10
RUN_S = 40


@dataclass(frozen=True)
class Size:
    """Sizes of the programs for a number of tenants, so that all have some 180 MiB together."""

    graph_scale: int
    records: int
    energies: int


SIZES = {2: Size(21, 500_000, 4000), 8: Size(19, 125_000, 1000), 30: Size(17, 31_000, 250)}


def neighbours(number: int) -> tuple[Batch, ...]:
    """Returns the tenants: PageRank, a B+ tree and XSBench in turns."""
    size = SIZES[number]
    kinds = (
        ("pagerank", ("graph", str(size.graph_scale), "4"), "edges"),
        ("btree", ("btree", str(size.records)), "operations"),
        ("xsbench", ("xsbench", str(size.energies)), "look-ups"),
    )
    return tuple(
        Batch(f"{name}-{i + 1}", words, unit, amount=0)
        for i in range(number)
        for name, words, unit in (kinds[i % len(kinds)],)
    )


def floor_mib(number: int) -> float:
    """Returns the floor of each tenant."""
    return GUARANTEED_MIB / number
