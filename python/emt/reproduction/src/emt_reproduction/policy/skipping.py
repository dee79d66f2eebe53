"""The objects that a sampling phase skips (EMT, section 5.2, sample filtering).

An object whose eight changes are all zero is not sampled in the next two phases. It is sampled
again afterwards, because it may be in use again.
"""

from collections.abc import Sequence

#: Phases that are skipped, as in the paper.
SKIPPED_PHASES = 2


class Skips:
    """The number of phases for which each object is still skipped.

    >>> skips = Skips()
    >>> skips.sampled(7, [0] * 8)
    >>> [skips.wanted(7) for phase in range(4)]
    [False, False, True, True]
    """

    def __init__(self) -> None:
        self._left: dict[int, int] = {}

    def sampled(self, key: int, changes: Sequence[int]) -> None:
        """Records a phase's reading of an object."""
        if not any(changes):
            self._left[key] = SKIPPED_PHASES

    def wanted(self, key: int) -> bool:
        """Returns true if the phase that starts now samples the object. It must be called once per
        phase."""
        left = self._left.get(key, 0)
        if left == 0:
            return True
        if left == 1:
            del self._left[key]
        else:
            self._left[key] = left - 1
        return False

    def forget(self, key: int) -> None:
        """Drops an object that was freed."""
        self._left.pop(key, None)
