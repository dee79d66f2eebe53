"""The nodes of pages, as the kernel reports them (move_pages without a target)."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

# (address, bytes)
Range = tuple[int, int]


@dataclass(frozen=True)
class Placement:
    """The pages of a range by node, and the pages on no node."""

    nodes: tuple[int, ...]
    absent: int

    @property
    def present(self) -> int:
        """Returns the number of pages on any node."""
        return sum(self.nodes)

    def share(self, node: int) -> float:
        """Returns the share of present pages that is on this node; 0 if no page is present."""
        return self.nodes[node] / self.present if self.present else 0.0

    def __add__(self, other: "Placement") -> "Placement":
        return Placement(
            tuple(a + b for a, b in zip(self.nodes, other.nodes)), self.absent + other.absent
        )


def where(pid: int, ranges: Sequence[Range]) -> list[Placement]:
    """Returns the nodes of the pages of each range of a process."""
    words = [str(number) for start, size in ranges for number in (start, size)]
    printed = subprocess.run(
        ["where", str(pid), *words], capture_output=True, text=True, check=False
    )
    if printed.returncode != 0:
        raise AssertionError(f"where {pid}: {printed.stderr.strip()}")
    rows = [json.loads(line) for line in printed.stdout.splitlines()]
    return [Placement(tuple(row["nodes"]), row["absent"]) for row in rows]
