"""Ten buckets of exponentially growing hotness, by tier (EMT, section 6.1, figure 5).

Bucket n holds the pages of hotness [2^n, 2^(n+1)); the first also those below 1, the last also all
above.

>>> [bucket(hotness) for hotness in (0.0, 1.9, 2.0, 1023.0, 5000.0)]
[0, 0, 1, 9, 9]
"""

import math
from typing import NamedTuple

#: The paper's number of buckets.
BUCKETS = 10


def bucket(hotness: float) -> int:
    """Returns the bucket of a page."""
    if hotness < 2.0:
        return 0
    return min(BUCKETS - 1, math.frexp(hotness)[1] - 1)


class Histogram(NamedTuple):
    """The pages in each bucket, of the fast tier and of the slow one."""

    fast: tuple[int, ...]
    slow: tuple[int, ...]

    def colder_in_fast(self, h: int) -> int:
        """Returns the fast pages below bucket h: the candidates for demotion."""
        return sum(self.fast[:h])

    def hotter_in_slow(self, h: int) -> int:
        """Returns the slow pages in bucket h and above: the candidates for promotion."""
        return sum(self.slow[h:])

    def fast_share(self) -> float:
        """RSS_fast of equation 2: the share of the pages that is in the fast tier; 0 if there are
        none."""
        pages = sum(self.fast) + sum(self.slow)
        return sum(self.fast) / pages if pages else 0.0
