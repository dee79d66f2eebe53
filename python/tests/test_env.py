"""Tests of the Gymnasium environment with the real engine."""

import os
import threading
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import tierwise
from gymnasium.utils.env_checker import check_env
from numpy.typing import NDArray
from tierwise import TierwiseEnv
from tierwise.registration import ID

Rollout = list[tuple[NDArray[np.float32], float]]


def rollout(env: TierwiseEnv, seed: int, steps: int = 8) -> Rollout:
    """Returns the start of an episode, under actions that depend only on the step."""
    env.reset(seed=seed)
    outcomes = (env.step(np.array([np.sin(i)], np.float32)) for i in range(steps))
    return [(outcome[0], outcome[1]) for outcome in outcomes]


def test_gymnasium_finds_nothing_wrong(scenario: Path) -> None:
    env = TierwiseEnv(scenario)
    # The environment cannot be rendered, and is created by its class.
    check_env(env, skip_render_check=True)
    env.close()


def test_gymnasium_makes_it_by_its_id(scenario: Path) -> None:
    env = gymnasium.make(ID, scenario=scenario, episode_length=3)
    env.reset(seed=1)
    truncated = [env.step(np.zeros(1, np.float32))[3] for _ in range(3)]
    assert truncated == [False, False, True]
    env.close()


def test_equal_seeds_give_equal_episodes(scenario: Path) -> None:
    env, again = TierwiseEnv(scenario), TierwiseEnv(scenario)
    first, second, other = rollout(env, 3), rollout(again, 3), rollout(env, 4)
    for one, two in zip(first, second, strict=True):
        np.testing.assert_array_equal(one[0], two[0])
        assert one[1] == two[1]
    assert any((one[0] != two[0]).any() for one, two in zip(first, other, strict=True))
    # The second episode of an environment equals the first.
    for one, two in zip(first, rollout(env, 3), strict=True):
        np.testing.assert_array_equal(one[0], two[0])
    env.close()
    again.close()


def test_the_default_length_is_the_scenarios(scenario: Path) -> None:
    env = TierwiseEnv(scenario)
    assert env.episode_length == 20
    env.reset(seed=1)
    ends = [env.step(np.zeros(1, np.float32))[2:4] for _ in range(20)]
    assert ends == [(False, False)] * 19 + [(False, True)]
    env.close()


def test_actions_move_partitions_and_rewards_follow(scenario: Path) -> None:
    env = TierwiseEnv(scenario, load=0.3)
    usage = {}
    for direction in (-1.0, 1.0):
        env.reset(seed=1)
        for _ in range(10):
            observation, reward, *_ = env.step(np.array([direction], np.float32))
            met = pytest.approx(1.0 - float(observation[0]), abs=1e-6)
            assert reward in (met, -1.0)
        usage[direction] = float(observation[0])
    assert usage[-1.0] < 0.1
    assert usage[1.0] > 0.5
    env.close()


def test_the_load_can_be_set(scenario: Path) -> None:
    easy, hard = TierwiseEnv(scenario, load=0.1), TierwiseEnv(scenario, load=2.0)
    assert all(reward > 0.0 for _, reward in rollout(easy, 1))
    assert any(reward == -1.0 for _, reward in rollout(hard, 1))
    easy.close()
    hard.close()


def test_no_request_is_no_reward(scenario: Path) -> None:
    changed = {
        "workload.store.service.arrivals": "curve",
        "workload.store.service.curve_s": [2.0, 10.0],
        "workload.store.service.curve_load": [1.0, 0.0],
    }
    env = TierwiseEnv(scenario, overrides=changed)
    env.reset(seed=1)
    steps = [env.step(np.zeros(1, np.float32)) for _ in range(5)]
    assert [info["measured"] for *_, info in steps][-1] is False
    assert steps[-1][1] == 0.0
    env.close()


def test_the_run_may_end_before_the_episode(scenario: Path) -> None:
    changed = {"workload.store.stop_s": 3.0, "workload.other.stop_s": 3.0}
    env = TierwiseEnv(scenario, overrides=changed)
    env.reset(seed=1)
    for _ in range(20):
        *_, truncated, info = env.step(np.zeros(1, np.float32))
        if truncated:
            break
    assert truncated
    assert info == {"measured": False}
    with pytest.raises(tierwise.TierwiseError, match="call reset"):
        env.step(np.zeros(1, np.float32))


@pytest.mark.parametrize("kind", [gymnasium.vector.SyncVectorEnv, gymnasium.vector.AsyncVectorEnv])
def test_it_works_in_vectors(scenario: Path, kind: type[gymnasium.vector.VectorEnv]) -> None:
    def make() -> TierwiseEnv:
        return TierwiseEnv(scenario, episode_length=4)

    vector = kind([make, make])  # type: ignore[call-arg]
    vector.reset(seed=1)
    for _ in range(6):  # Beyond an episode's end.
        observations, rewards, *_ = vector.step(np.zeros((2, 1), np.float32))
    assert observations.shape == (2, 3)
    assert rewards.shape == (2,)
    vector.close()


def test_make_vec_creates_a_vector(scenario: Path) -> None:
    vector = gymnasium.make_vec(ID, num_envs=2, vectorization_mode="sync", scenario=scenario)
    observations, _ = vector.reset(seed=1)
    assert observations.shape == (2, 3)
    vector.close()


def test_closing_early_ends_the_thread(scenario: Path) -> None:
    before = os.listdir("/proc/self/task")
    env = TierwiseEnv(scenario)
    env.reset(seed=1)
    assert len(os.listdir("/proc/self/task")) == len(before) + 1
    env.close()
    env.close()
    assert len(os.listdir("/proc/self/task")) == len(before)
    with pytest.raises(tierwise.TierwiseError, match="call reset"):
        env.step(np.zeros(1, np.float32))
    env.reset(seed=1)
    del env
    assert len(os.listdir("/proc/self/task")) == len(before)


def test_others_run_while_a_decision_is_awaited(scenario: Path) -> None:
    def episode(seed: int) -> None:
        env = TierwiseEnv(scenario)
        results[seed] = rollout(env, seed)
        env.close()

    results: dict[int, Rollout] = {}
    threads = [threading.Thread(target=episode, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = TierwiseEnv(scenario)
    for seed in (1, 2):
        for one, two in zip(results[seed], rollout(alone, seed), strict=True):
            np.testing.assert_array_equal(one[0], two[0])
    alone.close()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_fork_ignores_its_parents_thread(scenario: Path) -> None:
    env = TierwiseEnv(scenario)
    env.reset(seed=1)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            env.step(np.zeros(1, np.float32))
        except tierwise.TierwiseError:
            env.reset(seed=1)
            env.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    env.step(np.zeros(1, np.float32))
    env.close()


def test_mistakes_are_told_in_words(scenario: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no-such.toml"):
        TierwiseEnv(tmp_path / "no-such.toml")
    with pytest.raises(tierwise.TierwiseError, match='did you mean "mtat"'):
        TierwiseEnv(scenario, recipe="mtatt")
    with pytest.raises(ValueError, match="episode_length is 0"):
        TierwiseEnv(scenario, episode_length=0)
    with pytest.raises(tierwise.TierwiseError, match=r"small.toml.*service\.load: found -1"):
        TierwiseEnv(scenario, load=-1.0)
    env = TierwiseEnv(scenario)
    env.reset(seed=1)
    with pytest.raises(ValueError, match="an action was NaN"):
        env.step(np.array([np.nan], np.float32))
    env.close()


def test_a_recipe_without_learning_is_refused(scenario: Path) -> None:
    env = TierwiseEnv(scenario, recipe="tpp")
    with pytest.raises(tierwise.TierwiseError, match="recipe tpp: nothing was there to decide"):
        env.reset(seed=1)


def test_a_scenario_without_a_service_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "none.toml"
    path.write_text(
        'name = "none"\nsummary = "x"\nduration_s = 1\n[machine]\npreset = "dram-cxl"\n'
        'fast = "64MiB"\nslow = "64MiB"\n[[workload]]\nname = "a"\n[workload.generator]\n'
        'pattern = "zipf"\nfootprint = "8MiB"\n'
    )
    with pytest.raises(tierwise.TierwiseError, match="none.toml: found 0 latency-critical"):
        TierwiseEnv(path)
