"""Computes the hotness of objects from their samples, phase by phase (EMT, sections 5.2 to 6).

For each object it stores the counter at the last sample, eight changes, and the phases to skip. In
each phase the model computes the hotness of the sampled objects, and the page table then computes
that of their pages.
"""

from collections import deque
from collections.abc import Iterable, Mapping

from .features import SAMPLES, changes_between, features
from .linear import LinearModel
from .skipping import Skips


class ObjectHotness:
    """Tracked objects by address.

    >>> model = LinearModel(0.0, (0.0, 0.0, 1.0, 0.0, 0.0))
    >>> tracked = ObjectHotness(model, bits=32)
    >>> for counter in (5, 7, 9):
    ...     hotness = tracked.sample({4096: counter})
    >>> hotness
    {4096: 2.0}
    """

    def __init__(self, model: LinearModel, bits: int) -> None:
        """`bits` is the width of the counter, which wraps."""
        self._model = model
        self._bits = bits
        self._previous: dict[int, int] = {}
        self._changes: dict[int, deque[int]] = {}
        self._skips = Skips()

    def __len__(self) -> int:
        return len(self._changes)

    def wanted(self, addresses: Iterable[int]) -> list[int]:
        """Returns the objects that this phase samples. It must be called once per phase."""
        return [address for address in addresses if self._skips.wanted(address)]

    def sample(self, counters: Mapping[int, int]) -> dict[int, float]:
        """Takes a phase's counters. Returns the hotness of the objects that changed in any of their
        last eight samples."""
        hotness = {}
        for address, counter in counters.items():
            changes = self._changes.setdefault(address, deque(maxlen=SAMPLES))
            if (before := self._previous.get(address)) is not None:
                changes.append(changes_between(before, counter, self._bits))
            self._previous[address] = counter
            if any(changes):
                hotness[address] = self._model.hotness(features(changes))
            elif len(changes) == SAMPLES:
                self._skips.sampled(address, changes)
        return hotness

    def drop(self, addresses: Iterable[int]) -> None:
        """Drops objects that were freed."""
        for address in addresses:
            self._previous.pop(address, None)
            self._changes.pop(address, None)
            self._skips.forget(address)
