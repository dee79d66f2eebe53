"""Memory that is locked on the fast node, so that a test sets the free memory of the node."""

from pathlib import Path

# The unit of stairs' sizes; its memory beside the region is small.
MIB = 1 << 20


def free_mib(node: int) -> int:
    """Returns the free MiB of a node, with those on per-CPU lists."""
    return free_pages(Path("/proc/zoneinfo").read_text(), node) * 4096 // MIB


def free_pages(zoneinfo: str, node: int) -> int:
    """Returns the free pages of a node and those on its zones' per-CPU lists.

    The kernel counts only the first ones as free (MemFree), but allocates the second ones first.
    They can be an eighth of a zone.
    """
    pages, here = 0, False
    for line in zoneinfo.splitlines():
        words = line.split()
        if words[0] == "Node":
            here = words[1] == f"{node},"
        elif here and (words[:2] == ["pages", "free"] or words[0] == "count:"):
            pages += int(words[-1])
    return pages


def low_watermark_mib(node: int) -> int:
    """Returns a node's low watermark in MiB: below it the kernel starts to reclaim
    (/proc/zoneinfo)."""
    pages, here = 0, False
    for line in Path("/proc/zoneinfo").read_text().splitlines():
        words = line.split()
        if words[0] == "Node":
            here = words[1] == f"{node},"
        elif here and words[0] == "low":
            pages += int(words[1])
    return pages * 4096 // MIB


def surplus_mib(left: int, node: int = 0) -> int:
    """Returns the MiB to lock on a node so that this much of its memory stays free."""
    surplus = free_mib(node) - left
    if surplus < 1:
        raise AssertionError(f"node {node} has {free_mib(node)} MiB free; {left} must stay free")
    return surplus
