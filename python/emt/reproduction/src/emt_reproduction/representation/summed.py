"""SH: the sum, which does not distinguish one very hot object from many warm ones.

>>> summed([3, 4, 3])
10.0
"""

import math
from collections.abc import Sequence


def summed(hotness: Sequence[float]) -> float:
    """Returns the page's hotness."""
    return math.fsum(hotness)
