"""AH: the mean, the least stable of the four (section 7.3).

>>> averaged([3, 4, 5])
4.0
"""

import math
from collections.abc import Sequence


def averaged(hotness: Sequence[float]) -> float:
    """Returns the page's hotness; 0 without objects."""
    return math.fsum(hotness) / len(hotness) if hotness else 0.0
