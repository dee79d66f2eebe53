"""Hardware counters from which eagerness is computed, if the machine has them (perf_event_open).

They are the ratio of last-level load misses, and bytes per second from other nodes: node load
misses of 64 bytes each. They count the thread that opened them and those that it starts afterwards.
"""

import ctypes
import errno
import os
import struct
import sys
import time

from tierwise.emt.descriptors import Descriptor
from tierwise.emt.policy.eagerness import Reading

#: perf_event_open's number. On other architectures it differs, and no counters are read.
SYSCALLS = {"x86_64": 298, "aarch64": 241}
#: linux/perf_event.h: PERF_TYPE_HW_CACHE, and cache | operation << 8 | result << 16.
TYPE_HW_CACHE = 3
LLC_LOADS, LLC_LOAD_MISSES, NODE_LOAD_MISSES = 0x000002, 0x010002, 0x010006
#: Bits of perf_event_attr: inherit, exclude_kernel, exclude_hv. With them an unprivileged process
#: may count.
FLAGS = 1 << 1 | 1 << 5 | 1 << 6
ATTRIBUTE_BYTES = 128
LINE_BYTES = 64


class Counters:
    """Open counters, or none."""

    def __init__(self, descriptors: tuple[Descriptor, ...] = ()) -> None:
        self.descriptors = descriptors
        self._before: tuple[int, ...] = (0, 0, 0)
        self._at = time.monotonic()

    def read(self, slow_hot: float) -> Reading:
        """Returns the events since the last reading; without counters it uses `slow_hot`."""
        if not self.descriptors or not all(descriptor.kept() for descriptor in self.descriptors):
            return Reading(slow_hot=slow_hot)
        now = tuple(
            int.from_bytes(os.read(descriptor.number, 8), sys.byteorder)
            for descriptor in self.descriptors
        )
        at = time.monotonic()
        loads, misses, remote = (new - old for new, old in zip(now, self._before, strict=True))
        seconds = max(1e-9, at - self._at)
        self._before, self._at = now, at
        return Reading(misses / loads if loads else 0.0, remote * LINE_BYTES / seconds, slow_hot)

    def close(self) -> None:
        """Closes the counters. Calling it again does nothing."""
        for descriptor in self.descriptors:
            descriptor.close()
        self.descriptors = ()


def open_counters() -> Counters:
    """Opens all three, or none if one is not available: no such hardware, or perf_event_paranoid
    forbids it."""
    opened: list[Descriptor] = []
    for config in (LLC_LOADS, LLC_LOAD_MISSES, NODE_LOAD_MISSES):
        descriptor = _open(config)
        if descriptor < 0:
            Counters(tuple(opened)).close()
            return Counters()
        opened.append(Descriptor(descriptor))
    return Counters(tuple(opened))


def _open(config: int) -> int:
    """Returns a counter's descriptor, or an error number below zero."""
    number = SYSCALLS.get(os.uname().machine)
    if number is None:
        return -errno.ENOSYS
    attribute = struct.pack(
        "IIQQQQQ", TYPE_HW_CACHE, ATTRIBUTE_BYTES, config, 0, 0, 0, FLAGS
    ).ljust(ATTRIBUTE_BYTES, b"\0")
    libc = ctypes.CDLL(None, use_errno=True)
    # PERF_FLAG_FD_CLOEXEC is 8; pid 0 and cpu -1: this thread, on any CPU.
    descriptor: int = libc.syscall(number, attribute, 0, -1, -1, 8)
    return descriptor if descriptor >= 0 else -ctypes.get_errno()
