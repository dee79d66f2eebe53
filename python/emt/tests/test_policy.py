"""Tests of the paper's rules against figures that were computed by hand."""

import math
import statistics

import pytest
from tierwise.emt.demotion import Adaptive, Eager, Lazy
from tierwise.emt.policy.buckets import BUCKETS, Histogram, bucket
from tierwise.emt.policy.choose_t import Profile, choose_t
from tierwise.emt.policy.cooling import cooled
from tierwise.emt.policy.eagerness import Eagerness, Reading, Series
from tierwise.emt.policy.features import Features, changes_between, features
from tierwise.emt.policy.linear import NAMES, LinearModel
from tierwise.emt.policy.object_hotness import ObjectHotness
from tierwise.emt.policy.skipping import Skips
from tierwise.emt.policy.threshold import threshold
from tierwise.emt.representation import REPRESENTATIONS


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


def test_hotness_buckets_are_exponential() -> None:
    for n in range(1, BUCKETS):
        assert bucket(2.0**n) == n
        assert bucket(2.0 ** (n + 1) - 0.001) == n
    assert bucket(0.5) == 0
    assert bucket(1e9) == BUCKETS - 1


def histogram(fast: dict[int, int], slow: dict[int, int]) -> Histogram:
    return Histogram(
        tuple(fast.get(n, 0) for n in range(BUCKETS)), tuple(slow.get(n, 0) for n in range(BUCKETS))
    )


@pytest.mark.parametrize(
    ("fast", "slow", "h"),
    [
        # No page is slow: the first bucket with a page below it.
        ({0: 4}, {}, 1),
        # Equal numbers of colder and hotter pages do not suffice.
        ({0: 4, 3: 1}, {5: 4}, 4),
        # No fast page is colder than the slow ones: none is hot.
        ({9: 3}, {9: 5}, 10),
        # An empty fast tier accepts every accessed page.
        ({}, {0: 5, 7: 1}, 1),
    ],
)
def test_threshold_compares_cold_fast_with_hot_slow(
    fast: dict[int, int], slow: dict[int, int], h: int
) -> None:
    assert threshold(histogram(fast, slow), 1.0, 1.0) == h
    if fast:
        assert threshold(histogram(fast, slow), 0.9, 1.0) == h - 1


def test_eagerness_is_the_product_of_equation_2() -> None:
    eagerness = Eagerness()
    for miss, bandwidth in ((0.1, 100.0), (0.3, 300.0)):
        assert eagerness.total(0.5, Reading(miss, bandwidth)) == 0.0
    # Averages 0.2 and 200, deviations 0.1 and 100.
    assert eagerness.total(0.5, Reading(0.4, 500.0)) == pytest.approx(0.5 * 2.0 * 3.0)


def test_eagerness_says_what_it_is_computed_from() -> None:
    eagerness = Eagerness()
    assert Reading(0.1, 5.0).source == "counters"
    assert Reading(0.1, None, 0.5).source == "hot-slow-pages"
    for share in (0.1, 0.3):
        eagerness.total(0.25, Reading(slow_hot=share))
    assert eagerness.total(0.25, Reading(slow_hot=0.5)) == pytest.approx(0.25 * 3.0)
    # A reading below the average gives a negative value; the square of one reading could not.
    assert eagerness.total(0.25, Reading(slow_hot=0.0)) < 0


def test_a_series_without_variation_is_not_eager() -> None:
    series = Series()
    assert [series.z_score(1.0) for _ in range(5)] == [0.0] * 5


def test_demotion_waits_as_section_6_2_says() -> None:
    assert [way.patience(5.0) for way in (Eager(), Lazy(), Adaptive(t=1.0))] == [1, 2, 1]
    assert Adaptive(t=1.0).patience(1.0) == 2


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
