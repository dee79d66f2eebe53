"""Tests of policies, scenarios and recipes that are made in Python."""

from pathlib import Path

import numpy as np
import pytest
import tierwise
from numpy.typing import NDArray
from tierwise import Generator, Machine, Pages, PythonPolicy, Recipe, Scenario, Service, Workload
from tierwise.policy import Scores

SKEWED = Scenario(
    name="skewed",
    machine=Machine(fast_share=0.25),
    workloads=[
        Workload(
            name="program",
            source=Generator(
                pattern="zipf",
                footprint="4MiB",
                windows=300,
                more={"accesses_per_window": 20_000},
            ),
            more={"dilation": 40},
        )
    ],
)


def decayed_counts() -> Scores:
    heat = np.zeros(0)

    def scores(pages: Pages) -> NDArray[np.float64]:
        nonlocal heat
        heat = np.pad(heat, (0, max(0, int(pages.page.max(initial=0)) + 1 - heat.size)))
        heat *= 0.5
        heat[pages.page] += pages.samples
        return heat[pages.page]

    return scores


def coldest_first() -> Scores:
    inner = decayed_counts()
    return lambda pages: 1e9 - inner(pages)


def test_a_policy_in_numpy_is_compared_with_others() -> None:
    good = PythonPolicy(name="decayed", start=decayed_counts, sample_period=20)
    bad = PythonPolicy(name="inverted", start=coldest_first, sample_period=20)
    compared = tierwise.compare(SKEWED, ["static", good, bad, good])
    table = compared.policies().to_polars()
    assert table["policy"].to_list() == ["static", "decayed", "inverted", "decayed"]
    static, decayed, inverted, again = table["slowdown"].to_list()
    assert decayed < static < inverted
    assert decayed == again, "a run does not see another's state"
    assert table["promotions"].to_list()[1] > 0
    assert min(compared.run_seconds) > 0.0


def test_a_function_sees_every_page() -> None:
    seen: list[Pages] = []

    def start() -> Scores:
        def scores(pages: Pages) -> NDArray[np.float64]:
            seen.append(pages)
            return pages.referenced.astype(np.float64)

        return scores

    policy = PythonPolicy(name="bits", start=start, sample_period=0, reference_bits=True)
    tierwise.run(SKEWED, policy)
    last = seen[-1]
    assert last.page.size == 1024, "4 MiB of 4 KiB"
    assert set(last.tier) == {0, 1} and set(last.tenant) == {0} and set(last.base_pages) == {1}
    assert not last.samples.any()
    assert any(pages.referenced.any() for pages in seen)
    assert np.diff([pages.seconds for pages in seen]) == pytest.approx(1.0, abs=0.1)


def test_mistakes_of_a_function_come_through() -> None:
    def wrong(pages: Pages) -> NDArray[np.float64]:
        return np.zeros(3)

    def fails(pages: Pages) -> NDArray[np.float64]:
        raise RuntimeError("not today")

    with pytest.raises(ValueError, match="returned 3 scores for 1024 pages"):
        tierwise.run(SKEWED, PythonPolicy(name="wrong", start=lambda: wrong))
    with pytest.raises(RuntimeError, match="not today"):
        tierwise.run(SKEWED, PythonPolicy(name="fails", start=lambda: fails))
    with pytest.raises(ValueError, match="sees nothing"):
        tierwise.run(SKEWED, PythonPolicy(name="blind", start=lambda: fails, sample_period=0))
    external = Recipe(name="external", estimator={"algorithm": "external"})
    with pytest.raises(tierwise.TierwiseError, match="this program supplies no estimator"):
        tierwise.run(SKEWED, external)


def test_objects_are_files_in_other_words(scenario: Path) -> None:
    store = Service(footprint="96MiB", max_per_second=20_000, load=0.5)
    other = Generator(pattern="zipf", footprint="4MiB", windows=10)
    machine = Machine(fast="64MiB", slow="512MiB", more={"granule": "64KiB"})
    made = Scenario(
        name="small",
        duration_s=20,
        machine=machine,
        workloads=[
            Workload(name="store", slo_ms=5, source=store),
            Workload(name="other", source=other, more={"loops": 100_000, "footprint": "64MiB"}),
        ],
    )
    assert tierwise.run(made, "mtat") == tierwise.run(scenario, "mtat")
    written = Recipe(
        name="multi-clock",
        estimator={"algorithm": "multi-clock", "interval_ms": 1000},
        selector={"algorithm": "promote-list"},
    )
    assert tierwise.run(made, written) == tierwise.run(made, "multi-clock")


def test_mistakes_in_objects_name_their_key() -> None:
    odd = Machine(more={"fats": 1})
    with pytest.raises(tierwise.TierwiseError, match="machine.fats: unknown key"):
        tierwise.run(Scenario(name="odd", machine=odd, workloads=SKEWED.workloads))
    with pytest.raises(tierwise.TierwiseError, match="scan_page: unknown key"):
        recipe = Recipe(name="x", estimator={"algorithm": "clock", "scan_page": 1})
        tierwise.run(SKEWED, recipe)
