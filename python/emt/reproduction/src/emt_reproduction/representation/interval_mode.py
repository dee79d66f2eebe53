"""IMH: the mean of the most populated interval of hotness, the most stable of the four (section
7.3).

The intervals are those of the buckets; the paper does not define them. If two are equally
populated, the hotter counts, so that a page that is half in use is not demoted.

>>> interval_mode([3, 4, 3])
3.0
"""

import math
from collections import defaultdict
from collections.abc import Sequence

from tierwise.emt.policy.buckets import bucket


def interval_mode(hotness: Sequence[float]) -> float:
    """Returns the page's hotness; 0 without objects."""
    if not hotness:
        return 0.0
    intervals: defaultdict[int, list[float]] = defaultdict(list)
    for value in hotness:
        intervals[bucket(value)].append(value)
    mode = max(intervals, key=lambda index: (len(intervals[index]), index))
    return math.fsum(intervals[mode]) / len(intervals[mode])
