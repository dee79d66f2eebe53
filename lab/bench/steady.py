"""The steady state of a run, without its start."""

from collections.abc import Mapping, Sequence

# The last third of a run: it is three times as long as the start of the slowest policy of the
# bench.
STEADY_PART = 1 / 3
# The steady state is reached when the share exceeds this part of the steady share.
REACHED = 0.9

Point = Mapping[str, object]


def _at(point: Point) -> float:
    return float(point["seconds"])  # type: ignore[arg-type]


def _misses(point: Point) -> tuple[int, ...]:
    return tuple(point["user_misses"])  # type: ignore[arg-type]


def shares(points: Sequence[Point]) -> list[tuple[float, float]]:
    """Returns pairs of seconds and the share of the misses since the previous point that the fast
    node served. It skips an interval without misses."""
    found = []
    for before, now in zip(points, points[1:]):
        misses = [b - a for a, b in zip(_misses(before), _misses(now), strict=True)]
        if sum(misses) > 0:
            found.append((_at(now), misses[0] / sum(misses)))
    return found


def steady_share(points: Sequence[Point]) -> float:
    """Returns the share of fast misses in the last part of the run; 0 without misses."""
    if len(points) < 2:
        return 0.0
    start = _at(points[-1]) * (1 - STEADY_PART)
    first = next(point for point in points if _at(point) >= start)
    if first is points[-1]:
        first = points[-2]
    misses = [b - a for a, b in zip(_misses(first), _misses(points[-1]), strict=True)]
    return misses[0] / sum(misses) if sum(misses) else 0.0


def steady_after_s(points: Sequence[Point]) -> float:
    """Returns the seconds until two intervals in a row reached the steady state's share; the length
    of the run if none did."""
    needed = REACHED * steady_share(points)
    found = shares(points)
    for (at, share), (_, following) in zip(found, found[1:]):
        if share >= needed and following >= needed:
            return at
    return _at(points[-1]) if points else 0.0
