"""The tracking of this process: a thread that samples, judges and moves.

The thread holds the interpreter's lock only between intervals, for less than a millisecond. It is
not a `threading.Thread`, so that a program that counts its threads counts only its own.
"""

import _thread
import errno
import os
import signal
import sys
import time
from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING

from .budget import QUIET_SHARE, Ledger, MovePace
from .demotion import Adaptive, Demotion, Eager, Lazy
from .descriptors import Stop, wait_readable
from .errors import EmtError
from .heaps import HEAPS
from .held import HELD
from .history import BINS, DRAWN_BINS, History, Row
from .native import NativeKernel, NativeTable
from .policy.buckets import BUCKETS
from .policy.eagerness import Reading
from .policy.migration import Migration, Round
from .policy.moving import BatchMover
from .segregation import Segregation
from .settings import Settings, mask_of_nodes
from .sharing import SHARING
from .signals import PageSignal, Sampled, Signal, make_signal
from .stats import Stats
from .support import extension
from .topology import PAGE_BYTES, Topology, tiers

if TYPE_CHECKING:
    from .coldness import Coldness
    from .contents import Contents

#: Sampling phases between rounds of migration: the number of samples of an object.
PHASES_PER_ROUND = 8
#: Phases between rows of the heat map, and between calls of the callback.
PHASES_PER_ROW = 4
#: Pages whose node is queried before a round. At a quarter of a microsecond each, 2 ms of every 2
#: s: a twentieth of the default budget. The nodes of moved pages are known without a query.
LOCATED_PAGES = 1 << 13
#: The part of a round's budget that moves may take.
MOVE_SHARE = 0.5
#: Time limit of the wait for the thread's end. The thread ends at once, unless it is in a system
#: call or in the user's callback.
JOIN_S = 30.0
#: Interval between checks of the thread's end, which takes some ten microseconds.
GONE_POLL_S = 1e-4

#: Signals that the tracking thread blocks, so that they reach the program's thread that waits for
#: them (sigwait, signalfd). Excluded are the signals of the tracking thread's own faults, for which
#: faulthandler writes a traceback.
NOT_OURS = signal.valid_signals() - {signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV}

_DEMOTIONS: dict[str, type[Adaptive] | type[Eager] | type[Lazy]] = {
    "adaptive": Adaptive,
    "eager": Eager,
    "lazy": Lazy,
}

#: The program, or the system, has reached its limit of descriptors.
NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
CLOSED = (
    "the program closed the descriptors of its tracking; os.closerange closes those of others too"
)

Callback = Callable[[Stats], None]


class Parts:
    """The parts of a tracking that others may replace, as the paper's reproduction does."""

    def signal(self, settings: Settings) -> Signal:
        """Creates the signal."""
        return make_signal(settings)

    def reading(self, slow_hot: float) -> Reading:
        """Returns the reading from which eagerness is computed; `slow_hot` is the share of slow
        pages found hot."""
        return Reading(slow_hot=slow_hot)

    def close(self) -> None:
        """Releases everything but the signal. Calling it again does nothing."""


PARTS = Parts()


class Tracking:
    """Tracks from its creation to `end`."""

    def __init__(
        self,
        settings: Settings,
        callback: Callback | None = None,
        import_s: float = 0.0,
        parts: Parts = PARTS,
    ) -> None:
        """Starts tracking. If that fails, nothing is left behind.

        `import_s` is CPU time that the program has paid for the package already. It counts as
        spent, like that of this call.

        Raises:
            Unavailable: A required part is missing; the text names it.
        """
        began = time.thread_time()
        self.settings = settings
        # Looked up once here, because every stats() calls it.
        self._forks_now: Callable[[], int] = extension().fork_depth
        self._forks = self._forks_now()
        self._topology = tiers(settings.slow_nodes, settings.fast_nodes)
        self._parts = parts
        self._signal = parts.signal(settings)
        self._judged = self._signal.judged
        self.table = NativeTable(self._judged)
        self._callback = callback
        self._migration = self._make_migration() if settings.slow_nodes else None
        self._segregation = self._make_segregation()
        self._held = array("Q")
        # Pages located since one was found in slow memory.
        self._located = 0
        self._fast_mask = mask_of_nodes(self._topology.fast)
        self._moves = MovePace()
        self._ledger = Ledger(settings.overhead_budget)
        self.history = History()
        self._began = time.monotonic()
        setup_s = import_s + time.thread_time() - began
        self._ledger.add(0.0, setup_s)
        self._stats = Stats(active=True, signal=self._signal.name, setup_s=setup_s)
        # The identity of the thread while it runs, and a lock that the thread holds meanwhile.
        self._thread = self._native_thread = 0
        self._running = _thread.allocate_lock()
        self._stop = Stop()
        try:
            self._stop.open()
            self.resume()
        except BaseException:
            self._release("it did not start")
            raise

    def _make_migration(self) -> Migration:
        demotion: Demotion = _DEMOTIONS[self.settings.demotion]()
        mover = BatchMover(NativeKernel(), self._topology.fast, self._topology.slow)
        reserve = self.settings.reserve_bytes // PAGE_BYTES
        return Migration(self.table, mover, demotion, reserve, self._make_way)

    def _make_segregation(self) -> Segregation | None:
        found = self._signal
        if not isinstance(found, PageSignal):
            return None

        def touched(pages: "array[int]", window_s: float) -> bytes:
            return found.touched(self.table, pages, window_s, self._stop.fileno())

        return Segregation(self.table.spread, touched, self.settings.sample_interval)

    @property
    def topology(self) -> Topology:
        """The nodes of the tiers."""
        return self._topology

    def stats(self) -> Stats:
        """The current statistics."""
        return self._stats

    def contents(self) -> "Contents":
        """Returns the objects in the pages that are known now."""
        # Imported here: only a report needs it, and it costs every program's start.
        from .contents import contents as find_contents

        addresses, hotness, _ = self.table.inner.pages()
        return find_contents(array("Q", addresses), array("f", hotness), DRAWN_BINS)

    def coldness(self) -> "Coldness":
        """Returns the cold and hot memory of the program's objects now."""
        # Imported here, as above.
        from .coldness import coldness

        addresses, idle_s = self.table.inner.idle()
        return coldness(
            array("Q", addresses),
            array("I", idle_s),
            self._signal.name,
            time.monotonic() - self._began,
            self._judged(),
        )

    @property
    def inherited(self) -> bool:
        """Returns true if this tracking belongs to the process that forked this one, like the
        thread, its pipe and the protected pages."""
        return bool(self._forks_now() != self._forks)

    # Start and end of the thread.

    def resume(self) -> None:
        """Starts the thread, if it does not run and tracking has not ended."""
        if self._stats.active and not self._running.locked():
            self._running.acquire()
            try:
                # A thread inherits the signal mask of the thread that starts it.
                mask = signal.pthread_sigmask(signal.SIG_BLOCK, NOT_OURS)
                try:
                    self._thread = _thread.start_new_thread(self._run, ())
                finally:
                    # Signals that arrived meanwhile are handled here, and a handler may raise.
                    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            except BaseException:
                if self._thread:
                    self.pause()
                else:
                    self._running.release()
                raise

    def pause(self) -> None:
        """Ends the thread but keeps its state. A fork uses this, so that its child inherits no
        thread.

        Raises:
            EmtError: The thread does not end, or is the calling thread.
        """
        if not self._thread:
            return
        if self._thread == _thread.get_ident():
            raise EmtError(
                "tracking cannot be ended, nor the process forked, by its own callback; do it in "
                "another thread"
            )
        self._stop.notify()
        try:
            # A signal handler may raise during this wait.
            if not self._running.acquire(timeout=JOIN_S):
                raise EmtError(
                    f"the tracking thread did not end within {JOIN_S:.0f} s; does a callback wait "
                    "for this thread?"
                )
        finally:
            self._stop.forget()
        self._running.release()
        _wait_until_gone(self._native_thread)
        self._thread = 0

    def end(self) -> Stats:
        """Ends tracking permanently: the thread has then ended, and no page is protected. Returns
        the last stats.

        Raises:
            EmtError: The callback called it, and it would have to wait for the callback's own
            thread.
        """
        self.pause()
        self._release("ended")
        return self._stats

    def give_up(self, reason: str) -> None:
        """Ends tracking where there is no thread and none can start: in a child after fork, which
        inherits none, or at the interpreter's end."""
        self._thread = 0
        self._release(reason)

    def _release(self, reason: str) -> None:
        self._signal.close()
        self._parts.close()
        self._stop.close()
        self._stats = self._stats._replace(active=False, reason=self._stats.reason or reason)

    # The thread's work.

    def _run(self) -> None:
        self._native_thread = _thread.get_native_id()
        try:
            while not self._phase_or_rest():
                pass
        except Exception as error:  # noqa: BLE001
            # On any error the program continues without tracking.
            self._signal.close()
            self._stats = self._stats._replace(
                active=False, reason=f"{type(error).__name__}: {error}"
            )
            if not sys.is_finalizing():
                print(f"tierwise.emt stopped tracking: {self._stats.reason}", file=sys.stderr)
        finally:
            self._running.release()

    def _phase_or_rest(self) -> bool:
        """Runs a sampling phase. It pauses instead if the program may open no more descriptors,
        because the program may close some."""
        try:
            return self._phase()
        except OSError as error:
            if error.errno not in NO_DESCRIPTORS:
                raise
        return self._wait(self.settings.sample_interval)

    def _phase(self) -> bool:
        """Runs one sampling phase and the steps that follow it. Returns true if it was stopped."""
        program_began, thread_began = time.process_time(), time.thread_time()
        rests = self._ledger.overdrawn
        sampled = Sampled(0, 0, 0, 0.0)
        if rests:
            stopped = self._wait(self._ledger.rest_s(self.settings.sample_interval))
        else:
            sampled = self._signal.sample(
                self.table, self.settings.sample_interval, self._stop.fileno()
            )
            stopped = self._wait(0.0)
        if not stopped and not rests:
            self._follow_up(sampled)
        thread_s = time.thread_time() - thread_began
        spent_s = thread_s + sampled.fault_s
        program_s = time.process_time() - program_began - spent_s
        self._ledger.add(program_s, spent_s)
        if not stopped and not rests:
            self._signal.adjust(spent_s / program_s if program_s > 0 else 1.0, self._ledger.budget)
        self._publish(sampled, thread_s, rests)
        return stopped

    def _wait(self, seconds: float) -> bool:
        """Waits. Returns true if it was stopped."""
        notified = wait_readable(self._stop.fileno(), seconds)
        if not self._stop.kept():
            raise EmtError(CLOSED)
        return notified

    def _follow_up(self, sampled: Sampled) -> None:
        phase = self._stats.intervals + 1
        if phase % PHASES_PER_ROW == 0 and len(self.table):
            heat = array("f", self.table.inner.heat(BINS))
            self.history.add(Row(time.monotonic() - self._began, len(self.table), heat))
        if self._migration is None:
            self._stats = self._stats._replace(pages_hot=sampled.touched)
        elif phase % PHASES_PER_ROUND == 0:
            self._round(self._migration)

    def _round(self, migration: Migration) -> None:
        """Runs a round of migration, if a page could be promoted."""
        self._check_heaps()
        HEAPS.follow(0, SHARING.room_bytes())
        if (held := HELD.ranges()) != self._held:
            self.table.hold(held)
            self._held = held
        self.table.locate(self._fast_mask, LOCATED_PAGES)
        histogram = self.table.histogram()
        free = self._free_bytes()
        slow = sum(histogram.slow)
        self._located = 0 if slow else self._located + LOCATED_PAGES
        # Only a whole rotation knows that no page is slow.
        quiet = self._located >= len(self.table) and free >= self.settings.reserve_bytes
        self._ledger.share = QUIET_SHARE if quiet else 1.0
        if not slow:
            return
        reading = self._parts.reading(histogram.hotter_in_slow(1) / slow)
        seconds = (
            self.settings.overhead_budget
            * MOVE_SHARE
            * self.settings.sample_interval
            * PHASES_PER_ROUND
        )
        began = time.thread_time()
        done = migration.round(reading, free // PAGE_BYTES, self._moves.most(seconds))
        self._moves.moved(done.promoted + done.demoted + done.failed, time.thread_time() - began)
        SHARING.moved(done.promoted, done.demoted)
        self._note(done)

    def _check_heaps(self) -> None:
        if self._segregation is None or not isinstance(self._signal, PageSignal):
            return
        faults = self._segregation.round(HEAPS.slow_and_fast())
        fault_s = faults * self._signal.fault_s
        self._ledger.add(0.0, fault_s)
        self._stats = self._stats._replace(
            faults=self._stats.faults + faults, fault_s=self._stats.fault_s + fault_s
        )

    def _free_bytes(self) -> int:
        """Returns the free fast memory that promotions may take, and the reserve."""
        free = self._topology.free_fast_bytes()
        # The daemon would demote what goes beyond the tenant's share.
        room = SHARING.room_bytes()
        return free if room is None else min(free, self.settings.reserve_bytes + room)

    def _make_way(self, pages: int) -> int:
        """Has the cold heap return fast memory that it borrows; returns the pages that became
        free."""
        before = self._free_bytes()
        HEAPS.follow(pages * PAGE_BYTES, SHARING.room_bytes())
        return max(0, self._free_bytes() - before) // PAGE_BYTES

    def _note(self, done: Round) -> None:
        self._stats = self._stats._replace(
            pages_hot=done.hot if done.threshold < BUCKETS else 0,
            promoted=self._stats.promoted + done.promoted,
            demoted=self._stats.demoted + done.demoted,
            failed=self._stats.failed + done.failed,
            threshold=done.threshold,
            eagerness=done.eagerness,
            eagerness_source=done.eagerness_source,
        )

    def _publish(self, sampled: Sampled, thread_s: float, rests: bool) -> None:
        stats = self._stats
        self._stats = stats._replace(
            intervals=stats.intervals + (not rests),
            rested=stats.rested + rests,
            pages_tracked=len(self.table),
            faults=stats.faults + sampled.faults,
            fault_s=stats.fault_s + sampled.fault_s,
            thread_s=stats.thread_s + thread_s,
            overhead=self._ledger.overhead,
            memory_bytes=self.table.memory_bytes() + self._signal.memory_bytes(),
        )
        if not rests and self._stats.intervals % PHASES_PER_ROW == 0:
            self._call_back()

    def _call_back(self) -> None:
        if self._callback is None:
            return
        began = time.thread_time()
        self._callback(self._stats)
        took_s = time.thread_time() - began
        self._ledger.add(0.0, took_s)
        self._stats = self._stats._replace(thread_s=self._stats.thread_s + took_s)


def _wait_until_gone(native_thread: int) -> None:
    """Waits until the system has removed a thread, which is shortly after its last line of Python.

    A child forked before that would inherit the locks that the thread holds, and Python 3.12 would
    warn of a fork beside a thread.
    """
    end = time.monotonic() + JOIN_S
    while os.path.exists(f"/proc/self/task/{native_thread}") and time.monotonic() < end:
        time.sleep(GONE_POLL_S)
