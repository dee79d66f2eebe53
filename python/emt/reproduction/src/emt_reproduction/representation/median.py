"""MH: the median, which a few hot objects among cold ones do not raise.

>>> median([0, 0, 90])
0.0
"""

import statistics
from collections.abc import Sequence


def median(hotness: Sequence[float]) -> float:
    """Returns the page's hotness; 0 without objects."""
    return float(statistics.median(hotness)) if hotness else 0.0
