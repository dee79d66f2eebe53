"""The true last-level misses, which the plugin counts outside the guest and presents as the memory
of a device.

They exist only in guests that count them: timed mode, and function mode with truth=True. The layout
is that of lab/plugin/counters.h.
"""

import mmap
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .files import read, write
from .placement import Range

# "TIERMEM4".
MAGIC = 0x344D454D52454954
NODES_MAX = 4
HEADER_BYTES = 4096
PAGE_BYTES = 4096
# The counts by node start after seven numbers; four arrays come before the one of user misses.
COUNTS_AT = 56
USER_MISSES_AT = COUNTS_AT + 4 * NODES_MAX * 8
CURVE_AT = USER_MISSES_AT + NODES_MAX * 8
CURVE_STEPS = 256
# ivshmem: Red Hat's vendor number and the device's; its memory is the second region.
DEVICE = ("0x1af4", "0x1110")


@dataclass(frozen=True)
class Curve:
    """The misses of user programs between two requests, in the order of their pages' heat."""

    total: int
    steps: tuple[int, ...]
    """Those of the hottest 128 pages (512 KiB), of twice as many, and so on."""


@dataclass(frozen=True)
class NodeMisses:
    """Loads and stores of one node that missed the last-level cache, of all programs and the
    kernel."""

    loads: int
    stores: int


class Truth:
    """The current counters."""

    def __init__(self) -> None:
        device = _device()
        write(device / "enable", 1)
        with open(device / "resource2", "r+b") as file:
            both = mmap.PROT_READ | mmap.PROT_WRITE
            self._memory = mmap.mmap(file.fileno(), _size(device), mmap.MAP_SHARED, both)
        magic, self.pages, self.nodes = struct.unpack_from("<3Q", self._memory)
        if magic != MAGIC:
            raise AssertionError(f"{device}: the counters start with {magic:#x}, not {MAGIC:#x}")

    def charged_ns(self) -> int:
        """Returns the nanoseconds by which misses have moved the guest's clock."""
        return int(struct.unpack_from("<Q", self._memory, 24)[0])

    def misses(self) -> list[NodeMisses]:
        """Returns the misses of each node."""
        rows = struct.unpack_from(f"<{4 * NODES_MAX}Q", self._memory, COUNTS_AT)
        loads, stores = rows[2 * NODES_MAX : 3 * NODES_MAX], rows[3 * NODES_MAX :]
        return [NodeMisses(loads[node], stores[node]) for node in range(self.nodes)]

    def user_misses(self) -> list[int]:
        """Returns the misses of user programs by node, without those of the kernel, which copies
        pages."""
        return list(struct.unpack_from(f"<{self.nodes}Q", self._memory, USER_MISSES_AT))

    def ask_curve(self) -> None:
        """Requests the curve of the misses since the last request. The plugin answers at the next
        miss."""
        asked = struct.unpack_from("<Q", self._memory, CURVE_AT)[0]
        struct.pack_into("<Q", self._memory, CURVE_AT, asked + 1)

    def curve(self) -> Curve | None:
        """Returns the curve that was requested last; `None` until it is there."""
        asked, given, total, *steps = struct.unpack_from(
            f"<{3 + CURVE_STEPS}Q", self._memory, CURVE_AT
        )
        return Curve(total, tuple(steps)) if asked == given else None

    def of_page(self, frame: int) -> int:
        """Returns the misses of a physical page, by its frame number; modulo 2^32."""
        return int(struct.unpack_from("<I", self._memory, HEADER_BYTES + 4 * frame)[0])

    def of_ranges(self, pid: int, ranges: Sequence[Range]) -> int:
        """Returns the misses so far of the physical pages in which a process's ranges are now."""
        return sum(self.of_page(frame) for frame in frames(pid, ranges) if frame < self.pages)


def frames(pid: int, ranges: Sequence[Range]) -> list[int]:
    """Returns the frame numbers of a process's pages in memory (/proc/PID/pagemap)."""
    found = []
    with open(f"/proc/{pid}/pagemap", "rb") as pagemap:
        for start, size in ranges:
            pagemap.seek(start // PAGE_BYTES * 8)
            entries = pagemap.read(-(-size // PAGE_BYTES) * 8)
            for (entry,) in struct.iter_unpack("<Q", entries):
                # Bit 63: present; bits 0 to 54: the frame.
                if entry >> 63:
                    found.append(entry & ((1 << 55) - 1))
    return found


def _device() -> Path:
    for device in Path("/sys/bus/pci/devices").iterdir():
        if (read(device / "vendor"), read(device / "device")) == DEVICE:
            return device
    raise AssertionError("this guest counts no true misses: its boot has neither timed nor truth")


def _size(device: Path) -> int:
    start, end, _ = (int(field, 16) for field in read(device / "resource").splitlines()[2].split())
    return end - start + 1
