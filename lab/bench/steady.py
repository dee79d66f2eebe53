"""The steady state of a run, without its start."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence

# The last third of a run: it is three times as long as the start of the slowest policy of the
# bench.
STEADY_PART = 1 / 3
# The steady state is reached when the share exceeds this part of the steady share.
REACHED = 0.9
# Memory of one step of a curve (lab/plugin/counters.h).
STEP_MIB = 0.5

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


def of_oracle(
    points: Sequence[Point],
    hot: Sequence[Mapping[str, object]],
    watermarks_mib: Mapping[str, float],
) -> float | None:
    """Returns the share of fast misses in the steady state, as a part of the share that an oracle
    would have had: it knows the misses of each part of the run in advance, moves pages at no cost,
    and has the memory that the program holds of the fast node and what is free there above the high
    watermark. `None` if no curve lies in the steady state."""
    start = _at(points[-1]) * (1 - STEADY_PART) if points else 0.0
    ours = best = 0.0
    for before, part in zip(hot, hot[1:]):
        first, last = (_point_at(points, _at(one)) for one in (before, part))
        misses = [b - a for a, b in zip(_misses(first), _misses(last), strict=True)]
        if _at(last) <= start or sum(misses) == 0:
            continue
        room = sum(_room_mib(point, watermarks_mib) for point in (first, last)) / 2
        ours += misses[0]
        best += _best_share(part, room) * sum(misses)
    return ours / best if best else None


def _best_share(part: Mapping[str, object], room_mib: float) -> float:
    """Returns the share of the misses that the hottest pages of this size had."""
    ends: Sequence[int] = (0, *part["steps"])  # type: ignore[misc]
    total = int(part["total"])  # type: ignore[call-overload]
    whole, rest = divmod(room_mib / STEP_MIB, 1)
    below, above = (ends[min(int(whole) + more, len(ends) - 1)] for more in (0, 1))
    return (below + rest * (above - below)) / total if total else 0.0


def _point_at(points: Sequence[Point], seconds: float) -> Point:
    """Returns the point of this time, or the next."""
    return points[min(bisect_left(points, seconds, key=_at), len(points) - 1)]


def _room_mib(point: Point, watermarks_mib: Mapping[str, float]) -> float:
    free = float(point["free_mib"]) - watermarks_mib.get("high", 0.0)  # type: ignore[arg-type]
    return float(point["fast_mib"]) + max(free, 0.0)  # type: ignore[arg-type]
