"""Memory that is locked on the fast node, so that a test sets how much of the node is left."""

from pathlib import Path

from .files import read

# stairs needs its region whole to start; the rest of what it takes is small.
MIB = 1 << 20


def free_mib(node: int) -> int:
    """Free memory of a node."""
    for line in read(Path(f"/sys/devices/system/node/node{node}/meminfo")).splitlines():
        words = line.split()
        if words[2] == "MemFree:":
            return int(words[3]) // 1024
    raise AssertionError(f"node {node} does not report its free memory")


def low_watermark_mib(node: int) -> int:
    """A node's low watermark: below it the kernel starts to reclaim (/proc/zoneinfo)."""
    pages, here = 0, False
    for line in Path("/proc/zoneinfo").read_text().splitlines():
        words = line.split()
        if words[0] == "Node":
            here = words[1] == f"{node},"
        elif here and words[0] == "low":
            pages += int(words[1])
    return pages * 4096 // MIB


def surplus_mib(left: int, node: int = 0) -> int:
    """Memory to lock on a node so that so much of its free memory is left."""
    surplus = free_mib(node) - left
    if surplus < 1:
        raise AssertionError(
            f"node {node} has {free_mib(node)} MiB free, and {left} should be left"
        )
    return surplus
