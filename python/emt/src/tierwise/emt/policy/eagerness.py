"""The paper's eagerness: the need of slow pages for fast memory (EMT, section 6.1, equations 2 and
3).

    Eager_total = RSS_fast * Eager_llc_miss * Eager_bw
    Eager_x     = (x - avg(prev)) / std_dev(prev)

x is the ratio of last-level load misses, or the bandwidth to the slow tier; prev is a buffer of
recent values of it. If the machine counts neither, one reading replaces both: the share of slow
pages found hot. Its z-score is a factor once, because a square would always be positive.
"""

from collections import deque
from collections.abc import Collection
from math import fsum, sqrt
from typing import NamedTuple

#: Values in prev: at the default interval of migration (2 s), half a minute. The paper only says
#: "recent".
REMEMBERED = 16

#: The least number of values from which a z-score can be computed.
MIN_REMEMBERED = 2


class Reading(NamedTuple):
    """The machine's counters of an interval. It has both counters, or neither."""

    llc_miss: float | None = None
    """Last-level load misses per load, 0 to 1."""
    slow_bandwidth: float | None = None
    """Bytes per second between CPU and slow tier."""
    slow_hot: float = 0.0
    """The share of slow pages found hot, 0 to 1."""

    @property
    def source(self) -> str:
        """The source from which eagerness is computed."""
        return "counters" if self._has_counters else "hot-slow-pages"

    @property
    def _has_counters(self) -> bool:
        return self.llc_miss is not None and self.slow_bandwidth is not None


class Series:
    """A value over time, and its current z-score (equation 3).

    >>> series = Series()
    >>> [series.z_score(value) for value in (1.0, 3.0, 4.0)]
    [0.0, 0.0, 2.0]
    """

    def __init__(self) -> None:
        self._previous: deque[float] = deque(maxlen=REMEMBERED)

    def z_score(self, value: float) -> float:
        """Returns the z-score of a value against those before it, and stores the value. Returns 0
        while there are too few values or all were equal."""
        score = 0.0
        if len(self._previous) >= MIN_REMEMBERED:
            mean, deviation = _mean_and_deviation(self._previous)
            score = (value - mean) / deviation if deviation > 0.0 else 0.0
        self._previous.append(value)
        return score


def _mean_and_deviation(values: Collection[float]) -> tuple[float, float]:
    """Returns the mean and the population's standard deviation. The module `statistics` has both;
    its import costs the program as much as the rest of this package."""
    mean = fsum(values) / len(values)
    if min(values) == max(values):
        # The mean may be rounded, and values that are equal deviate by nothing.
        return mean, 0.0
    return mean, sqrt(fsum((value - mean) ** 2 for value in values) / len(values))


class Eagerness:
    """Equation 2 over the intervals of a run."""

    def __init__(self) -> None:
        self._llc_miss = Series()
        self._bandwidth = Series()
        self._slow_hot = Series()

    def total(self, fast_share: float, reading: Reading) -> float:
        """Returns Eager_total of an interval; `fast_share` is RSS_fast, 0 to 1."""
        if reading.llc_miss is not None and reading.slow_bandwidth is not None:
            return (
                fast_share
                * self._llc_miss.z_score(reading.llc_miss)
                * self._bandwidth.z_score(reading.slow_bandwidth)
            )
        return fast_share * self._slow_hot.z_score(reading.slow_hot)
