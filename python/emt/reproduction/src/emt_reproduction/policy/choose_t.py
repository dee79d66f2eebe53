"""The choice of the threshold T of adaptive lazy demotion (EMT, section 6.2, last paragraph).

Every workload runs with lazy demotion and without; its eagerness is recorded. Ten candidates divide
the range of recorded eagerness. A candidate's score is the geometric mean over workloads of the
time that each would take with it. Demotion is eager in the intervals whose eagerness exceeds the
candidate, and lazy in the others.

>>> fast_when_eager = Profile("a", lazy_s=2.0, eager_s=1.0, eagerness=(0.0, 1.0))
>>> choose_t([fast_when_eager])
0.0
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

#: Candidates over the range of eagerness, in steps of a tenth of it.
CANDIDATES = 10


@dataclass(frozen=True, slots=True)
class Profile:
    """Two runs of a workload, in seconds, and the eagerness of its intervals."""

    name: str
    lazy_s: float
    eager_s: float
    eagerness: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.lazy_s <= 0.0 or self.eager_s <= 0.0 or not self.eagerness:
            raise ValueError(
                f"{self.name}: lazy_s {self.lazy_s}, eager_s {self.eager_s}, "
                f"{len(self.eagerness)} intervals; allowed: times above 0, at least one interval"
            )

    def seconds(self, t: float) -> float:
        """Returns the time of a run whose demotion is lazy in intervals of at most this
        eagerness."""
        eager = sum(value > t for value in self.eagerness) / len(self.eagerness)
        return eager * self.eager_s + (1.0 - eager) * self.lazy_s


def choose_t(profiles: Sequence[Profile]) -> float:
    """Returns the candidate with the least geometric mean of times; the lowest of equal ones.

    Raises:
        ValueError: There are no profiles.
    """
    if not profiles:
        raise ValueError("T cannot be chosen from no profiles; allowed: 1 or more")
    values = [value for profile in profiles for value in profile.eagerness]
    low, high = min(values), max(values)
    step = (high - low) / CANDIDATES
    candidates = [low + index * step for index in range(CANDIDATES)]
    return min(
        candidates, key=lambda t: math.fsum(math.log(profile.seconds(t)) for profile in profiles)
    )
