"""The search for the bucket from which on pages are hot (EMT, section 6.1, last paragraph).

The threshold is the lowest h at which the fast tier holds more pages colder than h than the slow
tier holds pages at h or hotter. The demoted pages then free enough memory for the promoted ones. If
eagerness is lower than an interval ago, h is one less.

>>> histogram = Histogram(fast=(5, 3, 0, 0, 0, 0, 0, 0, 0, 2), slow=(20, 0, 4, 0, 0, 0, 0, 0, 0, 2))
>>> threshold(histogram, eagerness=1.0, eagerness_before=1.0)
2
>>> threshold(histogram, eagerness=0.5, eagerness_before=1.0)
1
"""

from .buckets import BUCKETS, Histogram

#: The threshold for an empty fast tier: no demotion is needed first, and every accessed page may be
#: promoted.
ANYTHING_ACCESSED = 1


def threshold(histogram: Histogram, eagerness: float, eagerness_before: float) -> int:
    """Returns the bucket of the coldest hot pages, from 0 (all are hot) to 10 (none is hot)."""
    if not any(histogram.fast):
        return ANYTHING_ACCESSED
    h = next(
        h for h in range(BUCKETS + 1) if histogram.colder_in_fast(h) > histogram.hotter_in_slow(h)
    )
    return max(0, h - 1) if eagerness < eagerness_before else h
