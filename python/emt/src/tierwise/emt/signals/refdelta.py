"""refdelta: the difference of reference counts from one sample to the next, on a stock interpreter.

It is a weak baseline: a use takes a reference and drops it, and the two changes cancel. It detects
only references that are held at the time of a sample.
"""

from .pool_objects import PoolObjects


class Refdelta(PoolObjects):
    """Finds objects by pools."""

    def __init__(self) -> None:
        super().__init__("refdelta")
