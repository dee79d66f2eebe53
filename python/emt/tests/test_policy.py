"""Tests of the paper's rules against figures that were computed by hand."""

from array import array

import pytest
from tierwise.emt.budget import QUIET_SHARE
from tierwise.emt.demotion import Adaptive, Eager, Lazy
from tierwise.emt.policy.buckets import BUCKETS, Histogram, bucket
from tierwise.emt.policy.eagerness import Eagerness, Reading, Series
from tierwise.emt.policy.migration import Round
from tierwise.emt.policy.threshold import threshold
from tierwise.emt.settings import Settings
from tierwise.emt.tracking import Tracking


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


class NoMigration:
    """Counts the rounds that moved pages."""

    rounds = 0

    def round(self, *_: object) -> Round:
        self.rounds += 1
        return Round(1, 0.0, "", 1, 0, 0, 0, 0)


def test_little_is_spent_while_nothing_can_be_gained(monkeypatch: pytest.MonkeyPatch) -> None:
    tracking = Tracking(Settings(mem_pressure="1MiB"))
    migration = NoMigration()
    try:
        tracking.pause()
        tracking._round(migration)  # type: ignore[arg-type]
        assert (tracking._ledger.share, migration.rounds) == (QUIET_SHARE, 0)
        # This machine has one node, which the kernel would report for each page.
        monkeypatch.setattr(tracking.table, "locate", lambda *_: None)
        tracking.table.inner.see({4096: 1.0}, 1.0)
        tracking.table.place(array("Q", [4096]), fast=False)
        tracking._round(migration)  # type: ignore[arg-type]
        assert (tracking._ledger.share, migration.rounds) == (1.0, 1)
    finally:
        tracking.end()


def test_all_of_the_budget_is_there_while_fast_memory_is_short() -> None:
    tracking = Tracking(Settings(mem_pressure="4096TiB"))
    try:
        tracking.pause()
        tracking._round(NoMigration())  # type: ignore[arg-type]
        assert tracking._ledger.share == 1.0
    finally:
        tracking.end()
