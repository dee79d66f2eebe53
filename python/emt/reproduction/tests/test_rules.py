"""Tests of the paper's rules against figures that were computed by hand."""

import math
import statistics

import pytest
from emt_reproduction.policy.choose_t import Profile, choose_t
from emt_reproduction.policy.cooling import cooled
from emt_reproduction.policy.features import Features, changes_between, features
from emt_reproduction.policy.linear import NAMES, LinearModel
from emt_reproduction.policy.object_hotness import ObjectHotness
from emt_reproduction.policy.skipping import Skips
from emt_reproduction.representation import REPRESENTATIONS


def test_features_are_those_of_section_5_3() -> None:
    changes = [0, 2, 4, 2, 0, 200, 2, 1]
    assert features(changes) == Features(2.0, statistics.pstdev(changes), 6, 4, 200)
    with pytest.raises(ValueError, match="no samples"):
        features([])


@pytest.mark.parametrize(
    ("before", "now", "bits", "change"),
    [(3, 10, 32, 7), (2**32 - 2, 5, 32, 7), (9, 9, 32, 0), (9, 3, 32, 255)],
)
def test_counters_wrap_and_fit_a_byte(before: int, now: int, bits: int, change: int) -> None:
    assert changes_between(before, now, bits) == change


def test_linear_hotness_is_never_negative() -> None:
    model = LinearModel.from_table(
        {"intercept": 1.0, **{name: float(n) for n, name in enumerate(NAMES)}}
    )
    assert model.hotness(Features(5.0, 2.0, 3, 4, 6)) == 1 + 0 * 5 + 1 * 2 + 2 * 3 + 3 * 4 + 4 * 6
    assert LinearModel(-5.0, (0.0,) * 5).hotness(features([0] * 8)) == 0.0
    with pytest.raises(ValueError, match="median"):
        LinearModel.from_table({"intercept": 1.0})
    # For an object in use, growth counts every use. Two readings of its reference count sometimes
    # differ, by one or two.
    for signal, in_use in (("growth", [40] * 8), ("refdelta", [1, 0, 1, 2, 0, 1, 0, 1])):
        shipped = LinearModel.shipped(signal)
        assert shipped.hotness(features(in_use)) > shipped.hotness(features([0] * 8))


def test_all_zero_objects_sit_out_two_phases() -> None:
    skips = Skips()
    skips.sampled(1, [0] * 8)
    skips.sampled(2, [0] * 7 + [1])
    assert [(skips.wanted(1), skips.wanted(2)) for _ in range(4)] == [
        (False, True),
        (False, True),
        (True, True),
        (True, True),
    ]
    skips.sampled(1, [0] * 8)
    skips.forget(1)
    assert skips.wanted(1)


def test_skipping_needs_eight_zero_samples() -> None:
    tracked = ObjectHotness(LinearModel(0.0, (0.0, 0.0, 1.0, 0.0, 0.0)), bits=32)
    for _ in range(8):
        assert tracked.wanted([16]) == [16]
        assert tracked.sample({16: 5}) == {}
    assert tracked.wanted([16]) == [16]
    tracked.sample({16: 5})
    assert [tracked.wanted([16]) for _ in range(3)] == [[], [], [16]]
    assert tracked.sample({16: 8}) == {16: 1.0}
    tracked.drop([16])
    assert len(tracked) == 0


def test_the_four_representations_of_figure_5() -> None:
    hotness = [3.0, 4.0, 3.0, 90.0]
    expected = {"summed": 100.0, "median": 3.5, "interval-mode": 3.0, "averaged": 25.0}
    assert {name: represent(hotness) for name, represent in REPRESENTATIONS.items()} == expected
    assert {represent([]) for represent in REPRESENTATIONS.values()} == {0.0}


def test_cooling_is_equation_1() -> None:
    assert cooled(10.0, 2.0, k=0.3) == pytest.approx(0.3 * 2 + 0.7 * 10)
    for k in (0.0, 1.5):
        with pytest.raises(ValueError, match=str(k)):
            cooled(1.0, 1.0, k)


def test_t_minimises_the_geometric_mean_of_times() -> None:
    # Eager demotion makes the first faster in its eager half, and the second slightly slower in a
    # tenth of its intervals.
    profiles = [
        Profile("gains", lazy_s=10.0, eager_s=2.0, eagerness=tuple([0.0] * 5 + [1.0] * 5)),
        Profile("loses", lazy_s=10.0, eager_s=11.0, eagerness=tuple([0.2] * 9 + [0.9])),
    ]
    candidates = [0.1 * n for n in range(10)]

    def mean(t: float) -> float:
        return math.prod(profile.seconds(t) for profile in profiles) ** 0.5

    best = choose_t(profiles)
    assert mean(best) == pytest.approx(min(mean(t) for t in candidates))
    assert best == pytest.approx(0.9)
    with pytest.raises(ValueError, match="no profiles"):
        choose_t([])
    with pytest.raises(ValueError, match="0 intervals"):
        Profile("x", 1.0, 1.0, ())
