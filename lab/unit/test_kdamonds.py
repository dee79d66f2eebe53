"""Tests of the CPU time of DAMON's threads. Real processes stand for them, because a file of /proc
ends with its process, and a file of a directory does not."""

import errno
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

from tierlab.paths import LAB

sys.path.insert(0, str(LAB / "guest"))
from bench.kdamonds import Kdamonds  # noqa: E402

# A busy process has run by then, on a machine that is not overloaded; samples are repeated.
TICK_S = 0.005


class KdamondTimes(unittest.TestCase):
    def setUp(self) -> None:
        scratch = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.admin, self.proc = scratch / "kdamonds", scratch / "proc"
        self.proc.mkdir()
        self.admin.mkdir()
        self.program = scratch / "kdamond.0"
        shutil.copy("/bin/bash", self.program)
        self.kdamonds = self.enterContext(Kdamonds(self.admin, self.proc))

    def _places(self, *pids: int) -> None:
        """Writes sysfs's files of so many kdamonds."""
        (self.admin / "nr_kdamonds").write_text(f"{len(pids)}\n")
        for place, pid in enumerate(pids):
            (self.admin / str(place)).mkdir(exist_ok=True)
            (self.admin / str(place) / "pid").write_text(f"{pid}\n")

    def _start(self, number: int, program: Path | None = None) -> "subprocess.Popen[bytes]":
        """Starts a busy thread of this number."""
        process = subprocess.Popen([program or self.program, "-c", "while :; do :; done"])
        self.addCleanup(_end, process)
        link = self.proc / str(number)
        link.unlink(missing_ok=True)
        link.symlink_to(f"/proc/{process.pid}")
        return process

    def _worked(self) -> float:
        """Takes samples until the time has grown, and returns it."""
        before = now = self.kdamonds.sample()
        while now == before:
            time.sleep(TICK_S)
            now = self.kdamonds.sample()
        return now

    def test_the_time_of_ended_threads_counts(self) -> None:
        self._places(7, -1)
        first = self._start(7)
        used = self._worked()
        _end(first)
        self._places(-1, -1)
        self.assertEqual((self.kdamonds.sample(), self.kdamonds.sample()), (used, used))
        self._start(8)
        self._places(-1, 8)
        self.assertGreater(self._worked(), used)

    def test_threads_of_one_number_add_up(self) -> None:
        self._places(7)
        first = self._start(7)
        used = self._worked()
        _end(first)
        self._start(7)
        self.assertGreaterEqual(self.kdamonds.sample(), used)
        self.assertGreater(self._worked(), used)

    def test_another_program_does_not_count(self) -> None:
        self._places(7)
        self._start(7, Path("/bin/bash"))
        time.sleep(2 * TICK_S)
        self.assertEqual(self.kdamonds.sample(), 0.0)

    def test_files_are_opened_once_until_removed(self) -> None:
        self._places(7)
        self._start(7)
        used = self._worked()
        with patch("os.open", side_effect=AssertionError):
            self._worked()
        shutil.rmtree(self.admin / "0")
        self._places(8)
        self._start(8)
        with patch("os.pread", side_effect=_without_device):
            self.assertGreater(self._worked(), used)

    def test_a_busy_file_loses_no_thread(self) -> None:
        self._places(7)
        self._start(7)
        used = self._worked()
        with patch("os.pread", side_effect=_busy(self.admin)):
            self.assertGreater(self._worked(), used)

    def test_a_kernel_without_damon_has_none(self) -> None:
        self.assertEqual(self.kdamonds.sample(), 0.0)

    def test_no_file_stays_open(self) -> None:
        before = os.listdir("/proc/self/fd")
        self._places(7, 9)
        ended = self._start(7)
        self._start(9, Path("/bin/bash"))
        with Kdamonds(self.admin, self.proc) as kdamonds:
            kdamonds.sample()
            _end(ended)
            self._start(7)
            kdamonds.sample()
        self.assertEqual(os.listdir("/proc/self/fd"), before)


PREAD = os.pread


def _without_device(file: int, size: int, offset: int) -> bytes:
    """Reads as sysfs does, where a removed file has no content."""
    if os.fstat(file).st_nlink == 0:
        raise OSError(errno.ENODEV, "removed")
    return PREAD(file, size, offset)


def _busy(admin: Path) -> Callable[[int, int, int], bytes]:
    """Returns a reading of files that finds DAMON's busy."""

    def read(file: int, size: int, offset: int) -> bytes:
        if os.readlink(f"/proc/self/fd/{file}").startswith(str(admin)):
            raise OSError(errno.EBUSY, "busy")
        return PREAD(file, size, offset)

    return read


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()


if __name__ == "__main__":
    unittest.main()
