"""The two states of the fast node in which a run can start.

`equal`: the fast node holds only the kernel, the ballast and the program, so that every policy
starts with the same memory. `used`: it also holds an idle process and idle page cache, as on real
hosts; the program starts with the same free memory.
"""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

from tierguest import Guest
from tierguest.files import read, write

from .course import gave_up

MIB = 1 << 20
# At least a third of a program's part of the fast node, which is enough to change its run time.
IDLE_MIB = 32
CACHED_MIB = 32
# The idle process wakes ten times a second and then uses a part of its memory, as daemons do.
IDLE_HOT_MIB = 1
IDLE_PAUSE_US = 100_000
# The file is on the disk, because the guest's /tmp is in memory.
CACHED_FILE = Path("/var/tmp/cached")
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
RECLAIM = Path("/sys/fs/cgroup/memory.reclaim")


def prepare(guest: Guest, host: str, left_mib: int) -> None:
    """Prepares the fast node, and leaves this much of it free."""
    _wake_kswapd()
    _clear_fast_node()
    if host == "used":
        _cache_file()
        guest.stairs(
            guest.cgroup("idle"),
            mib=IDLE_MIB,
            hot_mib=IDLE_HOT_MIB,
            node=0,
            pattern="fixed",
            pause_us=IDLE_PAUSE_US,
        )
    guest.ballast(left_mib)


def _wake_kswapd() -> None:
    """Has kswapd reclaim from the fast node again, if it gave up.

    It gives up when it has found nothing to reclaim 16 times (MAX_RECLAIM_RETRIES), until a page is
    reclaimed there. A policy that switches no demotion on can leave it so, and the kernel's tiering
    then promotes no page.
    """
    if gave_up(read("/proc/zoneinfo")):
        write(DROP_CACHES, 1)
        _load_daemon(0)
        # It reclaims as much as it finds, and fails if that is less.
        with contextlib.suppress(BlockingIOError):
            write(RECLAIM, CACHED_MIB * MIB)
        assert not gave_up(read("/proc/zoneinfo")), "kswapd still reclaims nothing"


def _clear_fast_node() -> None:
    """Moves the memory of all processes to the slow node and drops the page cache.

    Otherwise the free memory of a run depends on the runs before it: mapped page cache stays, and
    the kernel's tiering demotes it once.
    """
    for pid in _processes():
        # A kernel thread has no memory, and a process may end meanwhile.
        subprocess.run(["migratepages", str(pid), "0", "1"], check=False, capture_output=True)
    # The kernel keeps dirty pages: 7 MiB of the job's files in the first run of a guest.
    os.sync()
    write(DROP_CACHES, 3)
    # A host starts its daemon once. A run must not pay for reading 12 MB from the disk.
    _load_daemon(1)


def _load_daemon(node: int) -> None:
    """Reads the daemon's file into page cache of a node."""
    daemon = shutil.which("tierwised")
    if daemon:
        _read_on_node(Path(daemon), node)


def _read_on_node(file: Path, node: int) -> None:
    subprocess.run(
        ["numactl", f"--membind={node}", "cat", str(file)], check=True, stdout=subprocess.DEVNULL
    )


def _processes() -> list[int]:
    found = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit() and _has_memory(directory):
            found.append(int(directory.name))
    return found


def _has_memory(directory: Path) -> bool:
    try:
        return bool((directory / "cmdline").read_bytes())
    except (FileNotFoundError, ProcessLookupError):
        return False


def _cache_file() -> None:
    """Reads a file once, so that the fast node holds it and no process uses it."""
    if not CACHED_FILE.exists():
        CACHED_FILE.write_bytes(bytes(CACHED_MIB * MIB))
        os.sync()
        write(DROP_CACHES, 1)
    _read_on_node(CACHED_FILE, 0)
