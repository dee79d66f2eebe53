"""refdelta: by how much reference counts differ from one sample to the next, on a stock
interpreter.

The weak baseline: a use takes a reference and drops it, and the difference of both is nothing. It
sees only references that are held when it samples.
"""

from .pool_objects import PoolObjects


class Refdelta(PoolObjects):
    """Finds objects by pools."""

    def __init__(self) -> None:
        super().__init__("refdelta")
