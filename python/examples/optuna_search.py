"""Searches a recipe's parameters with Optuna, and judges them on programs that it never ran.

``python examples/optuna_search.py --trials 60`` in ``python/``, with ``pip install optuna``. A
trial runs the training scenarios, each first to a part of its end and then further. It reports the
mean slowdown after each part, so that Optuna's pruner ends a trial that is worse than the others
were there. The last lines compare the best setting with the recipe's own on held-out scenarios.
"""

import argparse
import math
from pathlib import Path
from typing import Any

import optuna
import tierwise

RECORDED = Path(__file__).parent / "../../scenarios/recorded"

#: A graph kernel, a key-value store and a database: programs of different kinds.
TRAINING = ("graph-bfs-kron", "redis-ycsb-a", "sqlite-memory")

#: Another kernel on another graph, another store, and two programs of no kind in the training.
HELD_OUT = ("graph-sssp-urand", "memcached-ycsb-d", "xsbench", "zstd-long")

#: Parts of a run, in shares of its length without tiering. The last is the whole of every run.
PARTS = (0.1, 0.3, None)


class Scenarios:
    """Scenarios, loaded once for each part."""

    def __init__(self, names: tuple[str, ...], parts: tuple[float | None, ...]) -> None:
        self._parts = {part: [self._load(name, part) for name in names] for part in parts}

    @staticmethod
    def _load(name: str, part: float | None) -> tierwise.Simulation:
        path = RECORDED / f"{name}.toml"
        whole = tierwise.Simulation(path)
        if part is None:
            return whole
        ends = whole.run("static", timeline_s=0.1)["timeline"][-1]["time_seconds"]
        return tierwise.Simulation(path, overrides={"duration_s": part * ends})

    def slowdown(self, recipe: "str | tierwise.Recipe", part: float | None = None) -> float:
        """The geometric mean of the slowdowns."""
        runs = self._parts[part]
        logs = [math.log(run.run(recipe)["result"]["slowdown"]) for run in runs]
        return math.exp(sum(logs) / len(logs))

    def each(self, recipe: "str | tierwise.Recipe") -> list[float]:
        """The slowdown in each scenario."""
        return [run.run(recipe)["result"]["slowdown"] for run in self._parts[None]]


def suggested(trial: optuna.Trial) -> dict[str, Any]:
    """The parameters of a trial: `recipes/multi-clock.toml` with its ranges around the defaults."""
    return {
        "interval_ms": trial.suggest_int("interval_ms", 50, 4000, log=True),
        "scan_pages": trial.suggest_int("scan_pages", 128, 16384, log=True),
        "dirty_weight": trial.suggest_int("dirty_weight", 0, 3),
    }


def recipe(parameters: dict[str, Any]) -> tierwise.Recipe:
    """MULTI-CLOCK with parameters."""
    return tierwise.Recipe(
        name="searched",
        estimator={"algorithm": "multi-clock", **parameters},
        selector={"algorithm": "promote-list"},
    )


def search(training: Scenarios, trials: int, seed: int) -> optuna.Study:
    """Runs the search."""

    def objective(trial: optuna.Trial) -> float:
        candidate = recipe(suggested(trial))
        slowdown = math.inf
        for step, part in enumerate(PARTS):
            slowdown = training.slowdown(candidate, part)
            trial.report(slowdown, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return slowdown

    study = optuna.create_study(
        sampler=optuna.samplers.TPESampler(seed=seed),
        # Eight whole trials show what is usual.
        pruner=optuna.pruners.MedianPruner(n_startup_trials=8),
    )
    study.enqueue_trial({"interval_ms": 1000, "scan_pages": 1024, "dirty_weight": 0})
    study.optimize(objective, n_trials=trials)
    return study


def main() -> None:
    """Searches, and prints what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = search(Scenarios(TRAINING, PARTS), asked.trials, asked.seed)
    pruned = sum(trial.state == optuna.trial.TrialState.PRUNED for trial in study.trials)
    print(f"{len(study.trials)} trials, {pruned} pruned; best: {study.best_params}")
    default = study.trials[0].value
    print(f"training: {default:.4f} by default, {study.best_value:.4f} found")
    held_out = Scenarios(HELD_OUT, (None,))
    default_each = held_out.each("multi-clock")
    found_each = held_out.each(recipe(study.best_params))
    for name, before, after in zip(HELD_OUT, default_each, found_each, strict=True):
        print(f"held out, {name}: {before:.4f} by default, {after:.4f} found")


if __name__ == "__main__":
    main()
