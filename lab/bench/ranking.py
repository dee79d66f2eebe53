"""Compares two rankings of the same policies: the pairs in a different order, and the overall
agreement.

    >>> live, simulated = {"a": 10.0, "b": 11.0, "c": 15.0}, {"a": 1.0, "b": 1.4, "c": 1.3}
    >>> compared = compare(live, simulated, tie=0.02)
    >>> compared.disagreements
    [('b', 'c')]
    >>> round(compared.tau, 3)
    0.333
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from math import sqrt


@dataclass(frozen=True)
class Comparison:
    """Kendall's tau of two rankings."""

    disagreements: list[tuple[str, str]]
    """Pairs in opposite orders in the two rankings; a tie does not disagree with any order."""
    tau: float
    """Kendall's tau-b, which allows for ties: 1 for the same order, -1 for the opposite, 0 if one
    ranking has only ties."""


def order(first: float, second: float, tie: float) -> int:
    """Returns -1 if the first value is less, 1 if it is more, 0 if they differ by no more than the
    share `tie` of the smaller."""
    if abs(first - second) <= tie * min(first, second):
        return 0
    return -1 if first < second else 1


def compare(live: Mapping[str, float], simulated: Mapping[str, float], tie: float) -> Comparison:
    """Compares the policies that both have; the values are run times or slowdowns."""
    names = [name for name in live if name in simulated]
    disagreements = []
    agreed = live_ordered = simulated_ordered = 0
    for first, second in combinations(names, 2):
        in_live = order(live[first], live[second], tie)
        in_simulated = order(simulated[first], simulated[second], tie)
        if in_live * in_simulated < 0:
            disagreements.append((first, second))
        agreed += in_live * in_simulated
        live_ordered += abs(in_live)
        simulated_ordered += abs(in_simulated)
    pairs = sqrt(live_ordered * simulated_ordered)
    return Comparison(disagreements, agreed / pairs if pairs else 0.0)


def ranked(times: Mapping[str, float]) -> list[str]:
    """Returns the names, the fastest first."""
    return sorted(times, key=lambda name: times[name])
