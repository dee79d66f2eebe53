"""The memory nodes of the machine, from sysfs."""

from typing import NamedTuple

from .errors import Unavailable

ROOT = "/sys/devices/system/node"
ZONES = "/proc/zoneinfo"
PAGE_BYTES = 4096


def list_of(text: str) -> tuple[int, ...]:
    """Parses the kernel's list of numbers.

    >>> list_of("0-2,5")
    (0, 1, 2, 5)
    """
    numbers: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            numbers.extend(range(int(first), int(last or first) + 1))
    return tuple(numbers)


class Topology(NamedTuple):
    """The nodes of two tiers."""

    fast: tuple[int, ...]
    slow: tuple[int, ...]
    root: str = ROOT

    def free_fast_bytes(self) -> int:
        """Returns the free memory of the fast nodes in bytes."""
        return sum(_free_bytes(f"{self.root}/node{node}/meminfo") for node in self.fast)

    def kept_bytes(self, zones: str = ZONES) -> int:
        """Returns the free memory of the fast nodes below which the kernel takes pages of other
        nodes: their zones' low watermarks. 0 if it is not known."""
        try:
            lines = _text(zones).splitlines()
        except OSError:
            return 0
        return _low_pages(lines, self.fast) * PAGE_BYTES


def _low_pages(lines: list[str], nodes: tuple[int, ...]) -> int:
    """Sums the low watermarks of the nodes' zones.

    >>> text = "Node 0, zone DMA\\n min 5\\n low 6\\nNode 1, zone Normal\\n low 70"
    >>> _low_pages(text.splitlines(), (1,)), _low_pages(text.splitlines(), (0, 1))
    (70, 76)
    """
    pages, node = 0, -1
    for line in lines:
        words = line.split()
        if line.startswith("Node"):
            node = int(words[1].rstrip(","))
        elif len(words) == 2 and words[0] == "low" and node in nodes:
            pages += int(words[1])
    return pages


def _free_bytes(file: str) -> int:
    for line in _text(file).splitlines():
        words = line.split()
        if len(words) >= 4 and words[2] == "MemFree:":
            return int(words[3]) * 1024
    raise Unavailable(f"{file} has no line MemFree")


def _text(file: str) -> str:
    with open(file, encoding="ascii") as opened:
        return opened.read()


def nodes_with_memory(root: str = ROOT) -> tuple[int, ...]:
    """Returns all nodes with memory; only node 0 if the kernel reports no nodes."""
    try:
        return list_of(_text(f"{root}/has_memory"))
    except FileNotFoundError:
        return (0,)


def tiers(slow: tuple[int, ...], fast: tuple[int, ...], root: str = ROOT) -> Topology:
    """Returns the requested nodes.

    Raises:
        Unavailable: A node does not exist or has no memory, or no node is left for the fast tier.
    """
    there = nodes_with_memory(root)
    for name, nodes in (("slow_nodes", slow), ("fast_nodes", fast)):
        if missing := sorted(set(nodes) - set(there)):
            raise Unavailable(
                f"{name} names node {missing[0]}, which has no memory; "
                f"nodes with memory: {', '.join(map(str, there))}; "
                "slow_nodes=[] only tracks"
            )
    rest = fast or tuple(node for node in there if node not in slow)
    if not rest:
        raise Unavailable(
            f"slow_nodes {slow} are all nodes with memory; leave one for the fast tier"
        )
    return Topology(rest, slow, root)
