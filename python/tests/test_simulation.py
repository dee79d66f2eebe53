"""Tests of runs from start to end."""

import _thread
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import tierwise
from tierwise import Simulation, State


def test_a_run_tells_what_came_of_it(scenario: Path) -> None:
    answer = tierwise.run(scenario, "static", timeline_s=5.0)
    store, other = answer["result"]["tenants"]
    assert (store["name"], other["name"]) == ("store", "other")
    assert store["class"] == "latency-critical"
    # Half of 20,000 requests per second, for 20 s; three standard deviations are 1,342.
    assert store["latency"]["requests"] == pytest.approx(200_000, abs=1_500)
    times = [point["time_seconds"] for point in answer["timeline"]]
    assert times == pytest.approx([5.0, 10.0, 15.0, 20.0])
    assert tierwise.run(scenario, "static")["timeline"] == []


def test_the_same_seed_gives_the_same_result(scenario: Path) -> None:
    simulation = Simulation(scenario)
    first = simulation.run("mtat", seed=3)
    assert simulation.run("mtat", seed=3) == first
    assert tierwise.run(scenario, "mtat", seed=3) == first
    assert simulation.run("mtat", seed=4) != first


def test_a_function_drives_the_engine(scenario: Path) -> None:
    seen: list[tuple[State, float | None]] = []

    def shrink(state: State, reward: float | None) -> float:
        seen.append((state, reward))
        return -1.0

    simulation = Simulation(scenario)
    shrunk = simulation.run("mtat", agent=shrink)["result"]["tenants"][0]
    grown = simulation.run("mtat", agent=lambda state, reward: 1.0)["result"]["tenants"][0]
    assert shrunk["usage_bytes"]["DRAM"] < grown["usage_bytes"]["DRAM"] / 4
    assert shrunk["fast_access_ratio"] < grown["fast_access_ratio"]
    assert 15 <= len(seen) <= 20, "once a virtual second"
    assert seen[0][1] is None
    assert all(0.0 <= number <= 1.0 for state, _ in seen for number in state)
    for state, reward in seen[1:]:
        assert reward in (pytest.approx(1.0 - state.usage_ratio), -1.0)


def test_what_a_function_raises_comes_through(scenario: Path) -> None:
    def fails(state: State, reward: float | None) -> float:
        raise RuntimeError("not today")

    simulation = Simulation(scenario)
    with pytest.raises(RuntimeError, match="not today"):
        simulation.run("mtat", agent=fails)
    with pytest.raises(ValueError, match="an action was NaN"):
        simulation.run("mtat", agent=lambda state, reward: float("nan"))
    with pytest.raises(TypeError):
        simulation.run(
            "mtat",
            agent=lambda state, reward: None,  # type: ignore[arg-type,return-value]
        )
    simulation.run("mtat")


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Enables Ctrl-C as in a terminal: a shell's background jobs ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("recipe", ["mtat", "static", "fmem-all", "multi-clock"])
def test_ctrl_c_ends_a_run(scenario: Path, recipe: str) -> None:
    simulation = Simulation(scenario, overrides={"duration_s": 1e6})
    timer = threading.Timer(0.2, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        simulation.run(recipe)


def test_overrides_change_the_scenario(scenario: Path) -> None:
    changed = {
        "duration_s": 2,
        "machine.fast": "32MiB",
        "workload.store.service.max_per_second": 4000,
    }
    tenants = tierwise.run(scenario, "static", overrides=changed)["result"]["tenants"]
    # Half of 4,000 for 2 s; three standard deviations are 190.
    assert tenants[0]["latency"]["requests"] == pytest.approx(4_000, abs=250)
    assert sum(tenant["usage_bytes"]["DRAM"] for tenant in tenants) <= 32 << 20


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"machine.fsat": "1MiB"}, "machine.fsat: unknown key; did you mean"),
        ({"workload.redis.weight": 1}, '"workload.redis.weight": no workload is called redis'),
        ({"workload.redis": 1}, "no workload is called redis|name the workload"),
        ({"name.x": 1}, "name is no table"),
        ({"duration_s": None}, "overrides: "),
        ({"duration_s": -1}, "small.toml with overrides:.*duration_s"),
    ],
)
def test_overrides_that_fit_nothing_are_refused(
    scenario: Path, overrides: dict[str, object], words: str
) -> None:
    with pytest.raises(tierwise.TierwiseError, match=words):
        Simulation(scenario, overrides=overrides)


def test_mistakes_are_told_in_words(scenario: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no-such.toml"):
        Simulation(tmp_path / "no-such.toml")
    with pytest.raises(FileNotFoundError, match="no-such-recipe.toml"):
        Simulation(scenario).run("no-such-recipe.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("name = ")
    with pytest.raises(tierwise.TierwiseError, match="broken.toml:1"):
        Simulation(broken)
    with pytest.raises(tierwise.TierwiseError, match="no policy is called"):
        Simulation(scenario).run("nothing")


def test_a_file_without_end_is_refused(scenario: Path, tmp_path: Path) -> None:
    endless = tmp_path / "endless.toml"
    endless.symlink_to("/dev/zero")
    with pytest.raises(tierwise.TierwiseError, match="endless.toml: it is larger than 4 MiB"):
        Simulation(endless)
    with pytest.raises(tierwise.TierwiseError, match="endless.toml: it is larger than 4 MiB"):
        Simulation(scenario).run(str(endless))


@pytest.mark.parametrize("seconds", [0.0, -1.0, 1e-9, float("nan"), float("inf")])
def test_an_interval_of_nonsense_is_refused(scenario: Path, seconds: float) -> None:
    with pytest.raises(tierwise.TierwiseError, match=r"timeline_s: found .*; allowed: 0.001 to"):
        Simulation(scenario).run("static", timeline_s=seconds)
