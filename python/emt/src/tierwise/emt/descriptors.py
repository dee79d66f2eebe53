"""Descriptors in a program that may close them: some programs close all descriptors that they do
not know, by os.closerange.

The number may then name a file of the program, which must be neither written nor closed.
"""

import contextlib
import os
import select


def wait_readable(descriptor: int, seconds: float) -> bool:
    """Returns true if the descriptor becomes readable within this time. Its number may be larger
    than select allows."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


class Descriptor:
    """A descriptor, with the identity of its file at creation."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._file = _file(number)

    def kept(self) -> bool:
        """Returns true if its number still names the same file."""
        return self._file is not None and _file(self.number) == self._file

    def close(self) -> None:
        """Closes the descriptor if it still names the same file. Calling it again does nothing."""
        if self.kept():
            os.close(self.number)
        self._file = None


def _file(number: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(number)
    except OSError:
        return None
    return status.st_dev, status.st_ino


class Stop:
    """Signals a thread to stop, in any call in which it waits, by a pipe that becomes readable."""

    def __init__(self) -> None:
        self._ends: tuple[Descriptor, ...] = ()

    def open(self) -> None:
        """Creates the pipe."""
        self._ends = tuple(map(Descriptor, os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)))

    def fileno(self) -> int:
        """Returns the descriptor for which the thread waits."""
        return self._ends[0].number

    def kept(self) -> bool:
        """Returns true if the program has not closed the pipe."""
        return all(end.kept() for end in self._ends)

    def notify(self) -> None:
        """Signals the thread. If the pipe is closed, the thread detects that itself."""
        if self.kept():
            os.write(self._ends[1].number, b"x")

    def forget(self) -> None:
        """Clears the signal, also if it was given several times."""
        if self.kept():
            with contextlib.suppress(BlockingIOError):
                os.read(self.fileno(), 4096)

    def close(self) -> None:
        """Closes the pipe. Calling it again does nothing."""
        for end in self._ends:
            end.close()
        self._ends = ()
