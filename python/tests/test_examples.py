"""The examples run as far as they need no PyTorch."""

import io

import fast_tier
import numpy as np
import optuna
import optuna_search
import pytest
from gymnasium.utils.env_checker import check_env


@pytest.mark.filterwarnings("default")
def test_the_search_prunes_and_beats_the_defaults() -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    training = optuna_search.Scenarios(("sqlite-memory",), optuna_search.PARTS)
    study = optuna_search.search(training, trials=14, seed=1)
    by_default = study.trials[0]
    whole = training.slowdown("multi-clock")
    assert by_default.value == whole, "the first trial is the recipe that ships"
    assert study.best_value < whole
    pruned = [trial for trial in study.trials if trial.state == optuna.trial.TrialState.PRUNED]
    assert pruned
    assert max(len(trial.intermediate_values) for trial in pruned) <= len(optuna_search.PARTS)


def test_the_task_of_the_agents_is_an_environment() -> None:
    out = io.StringIO()
    env = fast_tier.Curve("none", 1, out)
    check_env(env.unwrapped, skip_render_check=True)
    env.reset(seed=1)
    ends = [env.step(np.zeros(1, np.float32))[3] for _ in range(80)]
    env.close()
    assert ends == [False] * 79 + [True]
    head, line = out.getvalue().splitlines()
    assert head.split(",") == list(fast_tier.FIELDS)
    assert line.startswith("none,1,80,")
