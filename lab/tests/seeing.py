"""Tests that the accesses that software finds in the guest are true."""

import ctypes
import fcntl
import os
import signal
import struct
import time

from tierguest import Guest, test
from tierguest.damon import Damon
from tierguest.stairs import Stairs

MIB = 1 << 20
PAGE_BYTES = 4096
# Seconds for DAMON's regions to split and merge: 30 aggregations of 100 ms.
SETTLED_S = 3.0
# _IOWR('f', 16, struct pm_scan_arg of 96 bytes)
PAGEMAP_SCAN = 0xC0606610
PAGE_IS_PRESENT = 1 << 3


def _seen(damon: Damon, stairs: Stairs) -> tuple[float, float]:
    """Returns the share of the hot part that DAMON reports as hot, and the share of the reported
    memory that is hot."""
    truth = stairs.truth()
    regions = [region for region in damon.regions() if region.accesses >= damon.samples // 4]
    called = sum(region.overlap(*truth.region) for region in regions)
    right = sum(region.overlap(*truth.hot) for region in regions)
    return right / truth.hot[1], right / called if called else 0.0


@test(boot="hmat")
def damon_finds_the_hot_set(guest: Guest) -> None:
    """DAMON vaddr finds the hot part of stairs, and nothing else, although an emulated TLB keeps
    its entries."""
    stairs = guest.stairs(mib=128, hot_mib=16, hot_at_mib=48, pattern="fixed")
    damon = guest.damon(stairs.pid)
    time.sleep(SETTLED_S)
    guest.wait_until(
        lambda: min(_seen(damon, stairs)) > 0.9,
        30,
        lambda: f"hot seen, seen hot: {_seen(damon, stairs)}",
        every_s=1,
    )
    found, precise = _seen(damon, stairs)
    guest.figure("found_share", found)
    guest.figure("precise_share", precise)
    hot = [region for region in damon.regions() if region.overlap(*stairs.truth().hot)]
    checks = (
        sum(region.accesses * region.overlap(*stairs.truth().hot) for region in hot)
        / stairs.truth().hot[1]
    )
    guest.figure("checks_that_found_it_of_20", checks)


@test(boot="hmat")
def a_stopped_program_appears_idle(guest: Guest) -> None:
    """After SIGSTOP no page appears accessed, and after SIGCONT the hot part appears accessed
    again."""
    stairs = guest.stairs(mib=64, hot_mib=8, pattern="fixed")
    damon = guest.damon(stairs.pid)
    guest.wait_until(
        lambda: _seen(damon, stairs)[0] > 0.9,
        30,
        lambda: f"at first: {_seen(damon, stairs)}",
        every_s=1,
    )
    stairs.signal(signal.SIGSTOP)
    guest.wait_until(
        lambda: _seen(damon, stairs)[0] == 0.0,
        30,
        lambda: f"stopped: {_seen(damon, stairs)}",
        every_s=1,
    )
    stairs.signal(signal.SIGCONT)
    guest.wait_until(
        lambda: _seen(damon, stairs)[0] > 0.9,
        30,
        lambda: f"again: {_seen(damon, stairs)}",
        every_s=1,
    )


@test(boot="hmat")
def damon_follows_the_stairs(guest: Guest) -> None:
    """The hot part moves from phase to phase, and DAMON's regions follow it."""
    stairs = guest.stairs(mib=64, hot_mib=8, pattern="stairs", phase_s=12)
    damon = guest.damon(stairs.pid)
    followed: set[int] = set()

    def followed_three() -> bool:
        phase = stairs.truth().phase
        if _seen(damon, stairs)[0] > 0.9 and phase == stairs.truth().phase:
            followed.add(phase)
        return {0, 1, 2} <= followed

    guest.wait_until(
        followed_three, 36, lambda: f"followed in phases {followed} of 0, 1, 2", every_s=0.5
    )


@test(boot="hmat")
def pagemap_scan_finds_touched_pages(guest: Guest) -> None:
    """PAGEMAP_SCAN of this process reports exactly the written pages as present."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    size = 4 * MIB
    # PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS
    start = libc.mmap(None, size, 3, 0x22, -1, 0)
    libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), 15)  # MADV_NOHUGEPAGE
    touched = [3, 4, 5, 700]
    for page in touched:
        ctypes.memset(start + page * PAGE_BYTES, 1, 1)
    regions = ctypes.create_string_buffer(24 * 16)
    # size, flags, start, end, walk_end, vec, vec_len, max_pages, inverted, mask, anyof, return
    request = bytearray(
        struct.pack(
            "<12Q",
            96,
            0,
            start,
            start + size,
            0,
            ctypes.addressof(regions),
            16,
            0,
            0,
            PAGE_IS_PRESENT,
            0,
            PAGE_IS_PRESENT,
        )
    )
    descriptor = os.open("/proc/self/pagemap", os.O_RDONLY)
    count = fcntl.ioctl(descriptor, PAGEMAP_SCAN, request)
    os.close(descriptor)
    found = [struct.unpack_from("<2Q", regions, 24 * index) for index in range(count)]
    pages = [
        (page - start) // PAGE_BYTES
        for first, end in found
        for page in range(first, end, PAGE_BYTES)
    ]
    assert pages == touched, f"PAGEMAP_SCAN reports pages {pages}; the program wrote {touched}"
