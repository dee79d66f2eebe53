"""The task of `sb3_sac.py` and `cleanrl_sac.py`: how much fast memory does Redis get?

``python fast_tier.py judge --table TABLE MODEL...`` runs trained models and the policies that ship
under a load that no model was trained with; ``python fast_tier.py plot --image IMAGE CURVE...``
draws reward curves. `docs/learning.md` has what came of it.
"""

import argparse
import csv
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TextIO

import gymnasium
import numpy as np
from numpy.typing import NDArray
from tierwise import Simulation, State

SCENARIO = Path(__file__).with_name("fast_tier.toml")

#: Transitions of a training: sixty episodes.
TRANSITIONS = 4_800

#: A load for judging: other levels than in training, in another order and for other times. The
#: first is the greatest, as in training, and within the range of the training's.
HELD_OUT = {
    "workload.redis.service.curve_s": [8, 12, 6, 14, 9, 11, 7, 13],
    "workload.redis.service.curve_load": [0.96, 0.5, 0.9, 0.3, 0.7, 0.95, 0.25, 0.85],
}

#: Policies that ship. `mtat` brings a trained agent of its own, which goes on learning.
SHIPPED = ("static", "tpp", "memtis", "equilibria", "tierwise", "mtat")

#: Seeds of the judging, which no training had.
JUDGES = range(101, 106)

FIELDS = ("algorithm", "seed", "transitions", "mean_reward", "met", "seconds")

Observation = NDArray[np.float32]
Policy = Callable[[State], float]


class Curve(gymnasium.Wrapper[Observation, Observation, Observation, Observation]):
    """Writes a line of the reward curve for every episode."""

    def __init__(self, algorithm: str, seed: int, out: TextIO) -> None:
        super().__init__(gymnasium.make("tierwise/FastTier-v0", scenario=SCENARIO))
        self._of = (algorithm, seed)
        self._lines = csv.writer(out)
        self._out = out
        self._lines.writerow(FIELDS)
        self._rewards: list[float] = []
        self._transitions = 0
        self._start = time.process_time()

    def step(self, action: Observation) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Takes a step; a reward of -1 is an interval that missed the SLO."""
        outcome = self.env.step(action)
        self._rewards.append(float(outcome[1]))
        self._transitions += 1
        if outcome[3]:
            mean = statistics.fmean(self._rewards)
            met = sum(reward >= 0.0 for reward in self._rewards) / len(self._rewards)
            spent = time.process_time() - self._start
            rounded = (f"{mean:.4f}", f"{met:.4f}", f"{spent:.1f}")
            self._lines.writerow((*self._of, self._transitions, *rounded))
            self._out.flush()
            self._rewards = []
        return outcome[0], float(outcome[1]), outcome[2], outcome[3], outcome[4]


def arguments(description: str) -> argparse.Namespace:
    """The command line of both examples."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--transitions", type=int, default=TRANSITIONS)
    parser.add_argument("--curve", type=argparse.FileType("w"), required=True, help="a CSV file")
    parser.add_argument("--model", type=Path, required=True, help="where the policy goes")
    return parser.parse_args()


def rewards(answer: dict[str, Any]) -> list[float]:
    """The rewards of a run's seconds, by the environment's formula."""
    slo = answer["result"]["tenants"][0]["latency"]["slo_ms"]
    # A second's reading stands at its end; the first is the start.
    points = [point["tenants"][0] for point in answer["timeline"] if point["time_seconds"] > 0]
    usage = [point["usage_bytes"][0] / sum(point["usage_bytes"]) for point in points]
    met = [point["p99_ms"] <= slo for point in points]
    return [1.0 - used if kept else -1.0 for used, kept in zip(usage, met, strict=True)]


def judged(recipe: str, act: Policy | None) -> list[tuple[float, float, float]]:
    """Mean reward, share of seconds within the SLO, and the neighbour's slowdown, for each seed."""
    simulation = Simulation(SCENARIO, overrides=HELD_OUT)
    agent = None if act is None else lambda state, reward: act(state)
    judgements = []
    for seed in JUDGES:
        answer = simulation.run(recipe, seed=seed, agent=agent, timeline_s=1.0)
        of = rewards(answer)
        met = sum(reward >= 0.0 for reward in of) / len(of)
        neighbour = answer["result"]["tenants"][1]["slowdown"]
        judgements.append((statistics.fmean(of), met, neighbour))
    return judgements


def learned(model: Path) -> Policy:
    """A trained model's deterministic policy."""
    if model.suffix == ".zip":
        from sb3_sac import load
    else:
        from cleanrl_sac import load
    return load(model)


def judge(models: list[Path], out: TextIO) -> None:
    """Writes a line for each policy and seed."""
    table = csv.writer(out)
    table.writerow(("policy", "seed", "mean_reward", "met", "neighbour_slowdown"))
    policies: list[tuple[str, str, Policy | None]] = [(name, name, None) for name in SHIPPED]
    policies += [
        ("always more", "mtat", lambda state: 1.0),
        ("always less", "mtat", lambda state: -1.0),
    ]
    policies += [(model.stem, "mtat", learned(model)) for model in models]
    for name, recipe, act in policies:
        of = judged(recipe, act)
        for seed, (mean, met, neighbour) in zip(JUDGES, of, strict=True):
            table.writerow((name, seed, f"{mean:.4f}", f"{met:.4f}", f"{neighbour:.4f}"))
        print(name, *(f"{statistics.fmean(column):.3f}" for column in zip(*of, strict=True)))


def plot(curves: Iterable[Path], image: Path) -> None:
    """Draws the mean over the seeds of each algorithm, within their range."""
    import matplotlib

    matplotlib.use("svg")
    # Without a salt, names in the file differ from run to run.
    matplotlib.rcParams["svg.hashsalt"] = "tierwise"
    from matplotlib import pyplot

    runs: dict[str, list[list[tuple[int, float]]]] = {}
    for curve in curves:
        with curve.open() as file:
            rows = list(csv.DictReader(file))
        line = [(int(row["transitions"]), float(row["mean_reward"])) for row in rows]
        runs.setdefault(rows[0]["algorithm"], []).append(line)
    figure, panel = pyplot.subplots(figsize=(8, 3.6))
    for algorithm, lines in sorted(runs.items()):
        at = [transitions for transitions, _ in lines[0]]
        seeds = np.array([[reward for _, reward in line] for line in lines])
        panel.plot(at, seeds.mean(axis=0), label=f"{algorithm}, {len(lines)} seeds")
        panel.fill_between(at, seeds.min(axis=0), seeds.max(axis=0), alpha=0.25)
    panel.set_xlabel("transitions")
    panel.set_ylabel("mean reward of an episode")
    panel.grid(alpha=0.3)
    panel.legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(image, metadata={"Date": None})


def main() -> None:
    """Executes the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    judging = commands.add_parser("judge", help="run models and shipped policies")
    judging.add_argument("--table", type=argparse.FileType("w"), required=True)
    judging.add_argument("models", type=Path, nargs="*")
    drawing = commands.add_parser("plot", help="draw reward curves")
    drawing.add_argument("--image", type=Path, required=True)
    drawing.add_argument("curves", type=Path, nargs="+")
    asked = parser.parse_args()
    if asked.command == "judge":
        judge(asked.models, asked.table)
    else:
        plot(asked.curves, asked.image)


if __name__ == "__main__":
    main()
