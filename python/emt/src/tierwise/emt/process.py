"""The one tracking of this process: begun, ended, carried over forks and to the end of the interpreter."""

import _thread
import atexit
import os
import warnings
from collections.abc import Callable

from .errors import AlreadyTracking, NotTracking
from .settings import Settings
from .stats import Stats
from .support import extension, lack
from .tracking import Tracking


class Process:
    """Holds the tracking that is on, if one is."""

    def __init__(self) -> None:
        self._lock = _thread.allocate_lock()
        self._tracking: Tracking | None = None
        self._last: Tracking | None = None
        self._without = Stats(reason="not started")
        self._hooked = False

    def begin(self, settings: Settings, callback: Callable[[Stats], None] | None = None) -> None:
        """Begins tracking.

        Where there is no extension for this interpreter it does nothing but warn why.

        Raises:
            AlreadyTracking: It is on.
            Unavailable: It cannot be on here; it says why.
        """
        with self._lock:
            if self._tracking is not None:
                raise AlreadyTracking("tracking is already on in this process; end it first")
            if why := lack():
                self._without = Stats(reason=why)
                self._last = None
                warnings.warn(f"tierwise.emt does nothing: {why}", RuntimeWarning, stacklevel=3)
                return
            # A sub-interpreter or another size of pages is refused before anything is made.
            extension()
            self._hook()
            self._tracking = Tracking(settings, callback)
            self._last = self._tracking

    def finish(self) -> Stats:
        """Ends tracking; what was known at the end.

        Raises:
            NotTracking: It is not on.
        """
        with self._lock:
            tracking, self._tracking = self._tracking, None
        if tracking is None:
            if lack():
                return self._without
            raise NotTracking("tracking is not on; begin it with tiering(), start() or EMT.start()")
        try:
            return tracking.end()
        except BaseException:
            self._tracking = tracking
            raise

    def stats(self) -> Stats:
        """Of the tracking that is on, or was last."""
        return self._last.stats() if self._last else self._without

    def last(self) -> Tracking | None:
        """The tracking that is on, or was last."""
        return self._last

    def _hook(self) -> None:
        if not self._hooked:
            self._hooked = True
            atexit.register(self._at_exit)
            os.register_at_fork(before=self._before_fork, after_in_parent=self._in_parent, after_in_child=self._in_child)

    def _at_exit(self) -> None:
        if self._tracking is not None:
            self.finish()

    # Around a fork the process has no tracking thread: the child of a process with one thread inherits no lock that another
    # thread held, and Python does not warn of threads that the program did not start.

    def _before_fork(self) -> None:
        self._lock.acquire()
        if self._tracking is not None:
            # What is raised here is printed by os.fork, which goes on: the child closes what it inherited in any case.
            self._tracking.pause()

    def _in_parent(self) -> None:
        tracking = self._tracking
        self._lock.release()
        if tracking is None:
            return
        # Since 3.12 os.fork counts the process's threads after this and warns of any: the tracking thread comes back when os.fork has
        # returned. A fork in another thread than the main one has something to be warned of in any case.
        if _thread.get_native_id() == os.getpid():
            extension().call_soon(self._resume)
        else:
            self._resume()

    def _resume(self) -> None:
        # The main thread may hold the lock itself when it is made to call this.
        if not self._lock.acquire(blocking=False):
            extension().call_soon(self._resume)
            return
        try:
            if self._tracking is not None:
                self._tracking.resume()
        finally:
            self._lock.release()

    def _in_child(self) -> None:
        self._lock = _thread.allocate_lock()
        if self._tracking is not None:
            self._tracking.leave_to_parent()
            self._tracking = None


PROCESS = Process()
