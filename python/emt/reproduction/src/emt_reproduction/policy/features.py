"""Features of an object's last eight samples (EMT, sections 5.2 and 5.3).

A sample is the number of changes of the object's reference count since the previous sample.
Frequent small changes mean a hot object; one large change means a container that was copied or
dropped.

>>> features([2, 0, 2, 2, 0, 2, 2, 2]).nonzero
6
>>> features([0] * 8) == Features(0.0, 0.0, 0, 0, 0)
True
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from statistics import median, pstdev

#: Samples of an object: the paper's changes[0..7].
SAMPLES = 8

#: The largest change that counts as small. One use of an object takes a reference and drops it,
#: which are two changes; the paper does not give its bound.
SMALL_CHANGE = 2

#: The largest change that is stored: a byte, as in the paper. Larger changes are stored as this.
MAX_CHANGE = 255


@dataclass(frozen=True, slots=True)
class Features:
    """Statistics of the changes of one object: numbers of changes, or counts of samples."""

    median: float
    deviation: float
    nonzero: int
    small: int
    range: int

    def vector(self) -> tuple[float, ...]:
        """Returns the numbers in the order of the models' weights."""
        return tuple(float(number) for number in astuple(self))


def features(changes: Sequence[int]) -> Features:
    """Returns the features of the samples of one object.

    Raises:
        ValueError: There are no samples.
    """
    if not changes:
        raise ValueError("features of no samples; allowed: 1 or more (8 in the paper)")
    return Features(
        median=float(median(changes)),
        deviation=pstdev(changes),
        nonzero=sum(change != 0 for change in changes),
        small=sum(0 < change <= SMALL_CHANGE for change in changes),
        range=max(changes) - min(changes),
    )


def changes_between(previous: int, now: int, bits: int) -> int:
    """Returns the change between two readings of a counter of `bits` bits that wraps, as a byte.

    A block that was freed and allocated again starts at a small count. A wrapping counter makes
    that a very large change, which is no use of the new object. It is kept as the largest value of
    a byte.

    >>> changes_between(2**32 - 1, 3, bits=32)
    4
    >>> changes_between(500, 1, bits=32)
    255
    """
    return min((now - previous) % (1 << bits), MAX_CHANGE)
