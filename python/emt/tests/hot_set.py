"""A program with a known hot set, and a check that a signal finds it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tierwise.emt.native import NativeTable
from tierwise.emt.signals import Signal


class Known:
    """Objects, a part of which is used repeatedly."""

    def __init__(self, objects: int = 60_000) -> None:
        self.all = sorted((bytearray(40) for _ in range(objects)), key=id)
        self.hot = self.all[objects // 2 : objects // 2 + objects // 10]
        self.held: list[object] = []

    def use(self, seconds: float) -> None:
        """Uses the hot part, and holds or drops references to it."""
        self.held = [] if self.held else list(self.hot)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for item in self.hot:
                item[0] = 1

    def separates(self, table: NativeTable) -> bool:
        """Returns true if pages of the hot part are hotter than three quarters of the other
        pages."""
        first, last = id(self.hot[0]), id(self.hot[-1])
        others = sorted(
            table.hotness(id(item)) for item in self.all[::7] if not first <= id(item) <= last
        )
        hot = sorted(table.hotness(id(item)) for item in self.hot[::7])
        return hot[len(hot) // 2] > others[len(others) * 3 // 4]


def finds(signal: Signal, known: Known, stop: int) -> None:
    """Samples while the hot part is used, until the signal distinguishes it."""
    table = NativeTable()
    try:
        for _ in range(400):
            _in_thread(lambda: signal.sample(table, 0.02, stop), lambda: known.use(0.03))
            signal.adjust(0.001, 0.5)
            if known.separates(table):
                return
        raise AssertionError(
            f"{signal.name} does not distinguish the hot part from the others "
            f"after 400 rounds over {len(table)} pages"
        )
    finally:
        signal.close()


def _in_thread(sample: Callable[[], object], work: Callable[[], None]) -> None:
    thread = threading.Thread(target=sample)
    thread.start()
    work()
    thread.join()
