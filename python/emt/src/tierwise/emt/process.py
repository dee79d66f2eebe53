"""The one tracking of this process: started, ended, kept over forks and to the end of the
interpreter."""

import _thread
import atexit
import os
import sys
import warnings
from collections.abc import Callable
from functools import partial

from .errors import AlreadyTracking, EmtError, NotTracking, Unavailable
from .settings import Settings
from .stats import Stats
from .support import extension, unsupported
from .tracking import Tracking


OF_PARENT = "tracking goes on in the parent process"

#: The attribute of sys in which a process's tracking finds that of another copy of this module:
#: one that was reloaded, or imported again after it left sys.modules.
NOTE = "_tierwise_emt"


class Process:
    """Holds the tracking that is on, if one is."""

    def __init__(self) -> None:
        # A handler of a signal may fork, or start, while this thread starts.
        self._lock = _thread.RLock()
        self._beginning = False
        self._tracking: Tracking | None = None
        # Until it has ended, its pages are protected and cannot be protected again.
        self._ending: Tracking | None = None
        self._last: Tracking | None = None
        self._without = Stats(reason="not started")
        self._hooked = False

    def start(self, settings: Settings, callback: Callable[[Stats], None] | None = None) -> None:
        """Starts tracking.

        Without an extension for this interpreter it does nothing but warn with the reason.

        Raises:
            AlreadyTracking: It is on.
            Unavailable: It cannot be on here; the text has the reason.
        """
        with self._lock:
            self._leave_to_parent()
            if self._tracking is not None or self._beginning:
                raise AlreadyTracking("tracking is already on in this process; end it first")
            if self.is_on:
                raise AlreadyTracking("tracking is still ending in another thread")
            other = getattr(sys, NOTE, None)
            if other is not None and other.is_on:
                raise AlreadyTracking(
                    "another copy of tierwise.emt tracks this process; end tracking there, and "
                    "import the module once"
                )
            if why := unsupported():
                self._without = Stats(reason=why)
                self._last = None
                warnings.warn(f"tierwise.emt does nothing: {why}", RuntimeWarning, stacklevel=3)
                return
            # A sub-interpreter or another size of pages is refused before anything is made.
            extension()
            self._hook()
            self._beginning = True
            setattr(sys, NOTE, self)
            try:
                self._tracking = _begun(settings, callback)
            finally:
                self._beginning = False
            self._last = self._tracking

    def finish(self) -> Stats:
        """Ends tracking; returns the last stats.

        Raises:
            NotTracking: It is not on.
        """
        with self._lock:
            self._leave_to_parent()
            tracking, self._tracking = self._tracking, None
            if tracking is not None:
                self._ending = tracking
        if tracking is None:
            if unsupported():
                return self._without
            raise NotTracking("tracking is not on; start it with tiering(), start() or EMT.start()")
        try:
            return tracking.end()
        except BaseException:
            self._tracking = tracking
            raise
        finally:
            self._ending = None

    @property
    def is_on(self) -> bool:
        """True while this process is tracked, until tracking has ended."""
        tracking = self._tracking or self._ending
        return tracking is not None and not tracking.inherited

    def stats(self) -> Stats:
        """The statistics of the current or the last tracking."""
        self._leave_to_parent()
        return self._last.stats() if self._last else self._without

    def last(self) -> Tracking | None:
        """The tracking that is on, or was last."""
        return self._last

    def _hook(self) -> None:
        if not self._hooked:
            self._hooked = True
            atexit.register(self._at_exit)
            os.register_at_fork(
                before=self._before_fork,
                after_in_parent=self._lock.release,
                after_in_child=self._in_child,
            )
            # Since 3.12 os.fork counts the process's threads after these and warns of any: the
            # tracking thread comes back when os.fork has returned. What is called here must not be
            # Python, between whose instructions the interpreter would call already.
            os.register_at_fork(after_in_parent=partial(extension().call_after_fork, self._resume))

    def _at_exit(self) -> None:
        self._leave_to_parent()
        if self._tracking is not None:
            self.finish()

    def _leave_to_parent(self) -> None:
        """Lets go of the tracking of the process that forked this one: a fork of a library's own
        calls no hooks."""
        tracking = self._tracking
        if tracking is not None and tracking.inherited:
            self._tracking = None
            tracking.give_up(OF_PARENT)

    # Around a fork the process has no tracking thread: the child of a process with one thread
    # inherits no lock that another thread held, and Python does not warn of threads that the
    # program did not start.

    def _before_fork(self) -> None:
        self._lock.acquire()
        self._leave_to_parent()
        if self._tracking is not None:
            # What is raised here is printed by os.fork, which goes on: the child closes what it
            # inherited in any case.
            self._tracking.pause()

    def _resume(self) -> None:
        with self._lock:
            if self._tracking is not None:
                try:
                    self._tracking.resume()
                except RuntimeError as error:
                    # The interpreter is ending, or the system has no more threads: the program
                    # continues without tracking.
                    self._tracking.give_up(str(error))
                    self._tracking = None

    def _in_child(self) -> None:
        # The hooks know this lock: it is not replaced.
        self._lock._at_fork_reinit()  # type: ignore[attr-defined]
        self._leave_to_parent()


def _begun(settings: Settings, callback: Callable[[Stats], None] | None) -> Tracking:
    try:
        return Tracking(settings, callback)
    except EmtError:
        raise
    except (OSError, RuntimeError) as error:
        # There are no more descriptors or threads.
        raise Unavailable(
            f"tracking cannot start: {error}; allowed: a process that may open ten files and make "
            "one thread more"
        ) from error


PROCESS = Process()
