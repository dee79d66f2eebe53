"""The one tracking of this process: it starts and ends it, and handles forks and the end of the
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
from .topology import Topology
from .tracking import PARTS, Parts, Tracking

OF_PARENT = "tracking goes on in the parent process"

#: The attribute of sys in which a process's tracking finds that of another copy of this module:
#: one that was reloaded, or imported again after it left sys.modules.
NOTE = "_tierwise_emt"


class Process:
    """Holds the current tracking, if there is one."""

    def __init__(self) -> None:
        # A signal handler may fork, or start tracking, while this thread starts it.
        self._lock = _thread.RLock()
        self._beginning = False
        self._tracking: Tracking | None = None
        # Until it has ended, its pages are protected and cannot be protected again.
        self._ending: Tracking | None = None
        self._last: Tracking | None = None
        self._without = Stats(reason="not started")
        self._hooked = False
        self.import_s = 0.0
        """CPU time of the package's import. The process's first tracking pays for it."""

    def start(
        self,
        settings: Settings,
        callback: Callable[[Stats], None] | None = None,
        parts: Parts = PARTS,
    ) -> None:
        """Starts tracking.

        Without an extension for this interpreter it only warns with the reason.

        Raises:
            AlreadyTracking: Tracking is already on.
            Unavailable: Tracking is not possible here; the text has the reason.
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
            # A sub-interpreter or another size of pages is refused before anything is created.
            extension()
            self._hook()
            self._beginning = True
            setattr(sys, NOTE, self)
            try:
                self._tracking = _begun(settings, callback, self.import_s, parts)
            finally:
                self._beginning = False
            self.import_s = 0.0
            self._last = self._tracking

    def finish(self) -> Stats:
        """Ends tracking, and returns the last stats.

        Raises:
            NotTracking: Tracking is not on.
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

    def topology(self) -> Topology | None:
        """Returns the nodes of the tiers while tracking is on."""
        tracking = self._tracking
        return tracking.topology if tracking is not None and self.is_on else None

    def last(self) -> Tracking | None:
        """Returns the current or the last tracking."""
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
            # Since 3.12 os.fork counts the process's threads after these hooks and warns of any.
            # The tracking thread therefore restarts after os.fork has returned. The hook must not
            # be Python code, between whose instructions the interpreter would already make the
            # pending call.
            os.register_at_fork(after_in_parent=partial(extension().call_after_fork, self._resume))

    def _at_exit(self) -> None:
        self._leave_to_parent()
        if self._tracking is not None:
            self.finish()

    def _leave_to_parent(self) -> None:
        """Drops the tracking of the process that forked this one: a library's own fork calls no
        hooks."""
        tracking = self._tracking
        if tracking is not None and tracking.inherited:
            self._tracking = None
            tracking.give_up(OF_PARENT)

    # Around a fork the process has no tracking thread. The child of a process with one thread
    # inherits no lock that another thread held, and Python does not warn of a thread that the
    # program did not start.

    def _before_fork(self) -> None:
        self._lock.acquire()
        self._leave_to_parent()
        if self._tracking is not None:
            # os.fork prints an exception of this hook and continues. The child closes the inherited
            # descriptors in any case.
            self._tracking.pause()

    def _resume(self) -> None:
        with self._lock:
            if self._tracking is not None:
                try:
                    self._tracking.resume()
                except RuntimeError as error:
                    # The interpreter is ending, or the system has no more threads. The program
                    # continues without tracking.
                    self._tracking.give_up(str(error))
                    self._tracking = None

    def _in_child(self) -> None:
        # The hooks hold a reference to this lock, so it is not replaced.
        self._lock._at_fork_reinit()  # type: ignore[attr-defined]
        self._leave_to_parent()


def _begun(
    settings: Settings,
    callback: Callable[[Stats], None] | None,
    import_s: float,
    parts: Parts,
) -> Tracking:
    try:
        return Tracking(settings, callback, import_s, parts)
    except EmtError:
        raise
    except (OSError, RuntimeError) as error:
        # The process has no more descriptors or threads.
        raise Unavailable(
            f"tracking cannot start: {error}; allowed: a process that may open ten files and make "
            "one thread more"
        ) from error


PROCESS = Process()
