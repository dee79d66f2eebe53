"""Descriptors in a program that may close them: some close all that they do not know, by
os.closerange.

The number then names a file of the program's own, which must not be written, and not be closed.
"""

import contextlib
import os
import select


def wait_readable(descriptor: int, seconds: float) -> bool:
    """True if something can be read from it within so much time. Its number may be of any size,
    which select does not allow."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


class Descriptor:
    """A descriptor as it was when it was given here."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._file = _file(number)

    def kept(self) -> bool:
        """True if its number still names the same file."""
        return self._file is not None and _file(self.number) == self._file

    def close(self) -> None:
        """Closes it, if it is still there. Calling it again does nothing."""
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
    """Tells a thread to stop, in whichever call it waits: by a pipe, which it finds readable."""

    def __init__(self) -> None:
        self._ends: tuple[Descriptor, ...] = ()

    def open(self) -> None:
        """Makes the pipe."""
        self._ends = tuple(map(Descriptor, os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)))

    def fileno(self) -> int:
        """The descriptor that the thread waits for."""
        return self._ends[0].number

    def kept(self) -> bool:
        """True if the program left the pipe alone."""
        return all(end.kept() for end in self._ends)

    def notify(self) -> None:
        """Signals the thread. If the pipe is closed, the thread finds that itself."""
        if self.kept():
            os.write(self._ends[1].number, b"x")

    def forget(self) -> None:
        """Clears the signal, however often it was given."""
        if self.kept():
            with contextlib.suppress(BlockingIOError):
                os.read(self.fileno(), 4096)

    def close(self) -> None:
        """Gives the pipe back. Calling it again does nothing."""
        for end in self._ends:
            end.close()
        self._ends = ()
