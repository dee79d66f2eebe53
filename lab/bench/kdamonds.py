"""CPU time of DAMON's threads, which end during a run.

A kdamond ends when its target does, and whoever monitors ends and starts kdamonds to change their
targets. The time of a thread that has ended can no longer be read. So each sample reads the
threads that DAMON's sysfs names, and their last known times are added up. The sum lacks at most
what a thread used after the last sample before its end.

A sample must not cost the guest much time, so it does not search /proc: it reads files that it
keeps open. An open file of /proc also stands for one thread. A read of it fails after the thread's
end, even if another thread has the same number by then.
"""

import contextlib
import errno
import os
import threading
from pathlib import Path

from tierguest.damon import DAMON

# A pid, a number of kdamonds, or the three numbers of schedstat.
READ_BYTES = 128
NAME = "kdamond"


class Kdamonds:
    """All kdamonds that samples have found. Several threads may take samples."""

    def __init__(self, admin: Path = DAMON, proc: Path = Path("/proc")) -> None:
        self._admin, self._proc = admin, proc
        self._files: dict[Path, int] = {}
        self._threads: dict[int, _Thread] = {}
        self._ended_s = 0.0
        self._lock = threading.Lock()

    def __enter__(self) -> "Kdamonds":
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            for thread in self._threads.values():
                os.close(thread.file)
            for file in self._files.values():
                os.close(file)
            self._threads, self._files = {}, {}

    def sample(self) -> float:
        """Reads the threads' times, and returns the CPU seconds of all kdamonds so far."""
        with self._lock:
            for pid, thread in list(self._threads.items()):
                if not thread.read():
                    os.close(thread.file)
                    self._ended_s += thread.seconds
                    del self._threads[pid]
            for pid in self._pids() - self._threads.keys():
                if started := _Thread.open(self._proc / str(pid)):
                    self._threads[pid] = started
            return self._ended_s + sum(one.seconds for one in self._threads.values())

    def _pids(self) -> set[int]:
        """Returns the threads that run, without those whose files are busy."""
        places = self._number(self._admin / "nr_kdamonds") or 0
        pids = (self._number(self._admin / str(place) / "pid") for place in range(places))
        # The kernel writes -1 for none.
        return {pid for pid in pids if pid is not None and pid > 0}

    def _number(self, path: Path) -> int | None:
        """Returns the number in a file of sysfs; none if there is no such file, or while DAMON
        holds its lock."""
        with contextlib.suppress(FileNotFoundError):
            if path in self._files:
                try:
                    return _number(self._files[path])
                except OSError as error:
                    if error.errno == errno.EBUSY:
                        return None
                    # A write to nr_kdamonds creates all these files again: ENODEV.
                    os.close(self._files.pop(path))
            self._files[path] = os.open(path, os.O_RDONLY)
            with contextlib.suppress(OSError):
                return _number(self._files[path])
        return None


class _Thread:
    """A kdamond, by its open schedstat."""

    def __init__(self, file: int) -> None:
        self.file, self.seconds = file, 0.0

    @classmethod
    def open(cls, directory: Path) -> "_Thread | None":
        """Opens a thread; none if it is no kdamond: sysfs may name one that has just ended."""
        with contextlib.suppress(OSError):
            thread = cls(os.open(directory / "schedstat", os.O_RDONLY))
            # The name comes after the file: a number that is used again has the new thread's name,
            # and the file of the old one can no longer be read.
            with contextlib.suppress(OSError):
                if (directory / "comm").read_text().startswith(NAME) and thread.read():
                    return thread
            os.close(thread.file)
        return None

    def read(self) -> bool:
        """Reads the time, and returns true if the thread still runs."""
        try:
            self.seconds = _number(self.file) / 1e9
        except ProcessLookupError:
            return False
        return True


def _number(file: int) -> int:
    """Returns the first number of an open file."""
    return int(os.pread(file, READ_BYTES, 0).split()[0])
