"""Trains MTAT's agent and compares our learner with Stable-Baselines3's on the same environment.

``python -m tierwise.train train --algorithm sac-rust`` learns and writes the model and a learning
curve; ``... --algorithm sac-sb3`` learns with the reference; ``... maximum-load`` finds the maximum
loads of the models; ``... plot`` draws the curves. `docs/learning.md` lists the commands that were
run.

Both learners have the same settings: those of ``tierwise_learn::sac::SacConfig``.
"""

import argparse
import csv
import itertools
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

import tierwise
from tierwise import Sac, Simulation, State, TierwiseEnv

Observation = NDArray[np.float32]
Policy = Callable[[tuple[float, float, float]], float]

#: The steps up are those of MTAT's figure 7, to the share of the highest load that MTAT serves in
#: figure 8. The last percent is excluded: services have their knee at full load with everything
#: fast, and beside other programs no action meets the SLO there.
CURVE_LOAD = [0.99, 0.2, 0.4, 0.6, 0.8, 0.99, 0.6, 0.3]

#: Seconds of each load, as in MTAT's figure 7. The longest change of a partition (32 GB at 2 GB/s)
#: takes 16. With shorter loads a rise is over before the memory for it has come, and an agent
#: learns to miss the SLO instead of holding memory.
STEP_S = 20.0

#: Seconds of a run of the search for a maximum load, and of its start. The start does not count,
#: because partitions begin with the tenants' random allocations.
RUN_S, START_S = 60, 20

#: Steps of the search, in shares of the published maximum.
LOAD_STEP = 0.02

CURVE_FIELDS = ("transitions", "scenario", "mean_reward", "met", "seconds")


def service_of(scenario: Path) -> str:
    """Returns the name of the service, which is the file's name in the shipped scenarios."""
    return scenario.stem


def training_curve(scenario: Path) -> dict[str, Any]:
    """Returns a scenario's overrides for training."""
    service = f"workload.{service_of(scenario)}.service"
    return {
        f"{service}.arrivals": "curve",
        f"{service}.curve_s": [STEP_S] * len(CURVE_LOAD),
        f"{service}.curve_load": CURVE_LOAD,
        "duration_s": STEP_S * len(CURVE_LOAD),
    }


class Alternating(gymnasium.Env[Observation, Observation]):
    """Runs episodes of several scenarios in rotation, and writes a line of the learning curve for
    every episode."""

    def __init__(self, scenarios: Iterable[Path], curve: Path) -> None:
        self._envs = {s.stem: TierwiseEnv(s, overrides=training_curve(s)) for s in scenarios}
        self._order = itertools.cycle(self._envs)
        self._current = next(self._order)
        first = self._envs[self._current]
        self.observation_space, self.action_space = first.observation_space, first.action_space
        self._rewards: list[float] = []
        self._transitions = 0
        self._began = time.monotonic()
        self._file = curve.open("w", newline="")
        self._curve = csv.writer(self._file)
        self._curve.writerow(CURVE_FIELDS)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts an episode of the next scenario."""
        super().reset(seed=seed, options=options)
        self._current = next(self._order)
        self._rewards = []
        return self._envs[self._current].reset(seed=int(self.np_random.integers(2**31)))

    def step(self, action: Observation) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Takes a step of the current scenario."""
        outcome = self._envs[self._current].step(action)
        self._rewards.append(outcome[1])
        self._transitions += 1
        if outcome[3]:
            self._write()
        return outcome

    def _write(self) -> None:
        rewards = np.array(self._rewards)
        seconds = time.monotonic() - self._began
        met = float((rewards >= 0.0).mean())
        line = (
            self._transitions,
            self._current,
            f"{rewards.mean():.4f}",
            f"{met:.4f}",
            f"{seconds:.1f}",
        )
        self._curve.writerow(line)
        self._file.flush()
        print(*line, flush=True)

    def close(self) -> None:
        """Closes every scenario's environment."""
        for env in self._envs.values():
            env.close()
        self._file.close()


def numbers(observation: Observation) -> tuple[float, float, float]:
    """Converts an observation to the learner's form of a state."""
    return float(observation[0]), float(observation[1]), float(observation[2])


def train_rust(env: Alternating, transitions: int, seed: int, model: Path) -> None:
    """Trains Tierwise's Soft Actor-Critic; writes ``model``.safetensors and ``model``.onnx."""
    sac = Sac(seed=seed)
    observation, _ = env.reset(seed=seed)
    for _ in range(transitions):
        action = sac.act(numbers(observation))
        following, reward, _, truncated, info = env.step(np.array([action], np.float32))
        if info["measured"]:
            sac.store(numbers(observation), action, reward, numbers(following), False)
        observation = env.reset()[0] if truncated else following
    model.parent.mkdir(parents=True, exist_ok=True)
    sac.save(model.with_suffix(".safetensors"))
    sac.export_onnx(model.with_suffix(".onnx"))


def train_sb3(env: Alternating, transitions: int, seed: int, model: Path) -> None:
    """Learns with Stable-Baselines3 and writes ``model``.zip."""
    import torch
    from stable_baselines3 import SAC

    torch.set_num_threads(1)
    sac = SAC(
        "MlpPolicy",
        env,
        policy_kwargs={"net_arch": [64, 64]},
        learning_rate=3e-4,
        buffer_size=100_000,
        learning_starts=100,
        batch_size=64,
        tau=0.005,
        gamma=0.99,
        train_freq=50,
        gradient_steps=50,
        ent_coef="auto_0.1",
        target_entropy=-1.0,
        seed=seed,
        device="cpu",
    )
    sac.learn(transitions)
    model.parent.mkdir(parents=True, exist_ok=True)
    sac.save(model.with_suffix(".zip"))


def policy(model: Path) -> Policy:
    """Returns a trained model's deterministic policy; the suffix of its name sets the kind."""
    if model.suffix == ".safetensors":
        return Sac.load(model).act_mean
    from stable_baselines3 import SAC

    reference = SAC.load(model, device="cpu")

    def act(state: tuple[float, float, float]) -> float:
        action, _ = reference.predict(np.array(state, np.float32), deterministic=True)
        return float(action[0])

    return act


def meets(scenario: Path, load: float, act: Policy, seed: int) -> tuple[bool, float]:
    """Returns true if a constant load meets the objective in every second after the start, and the
    mean share of the service's memory that was fast then."""
    service = service_of(scenario)
    changed = {"duration_s": RUN_S, f"workload.{service}.service.arrivals": "poisson"}
    simulation = Simulation(scenario, overrides=changed, load=load)

    def agent(state: State, reward: float | None) -> float:
        return act(state)

    answer = simulation.run("mtat", seed=seed, agent=agent, timeline_s=1.0)
    tenants = zip(answer["result"]["tenants"], itertools.count())
    index = next(i for tenant, i in tenants if tenant["name"] == service)
    slo = answer["result"]["tenants"][index]["latency"]["slo_ms"]
    points = [p["tenants"][index] for p in answer["timeline"] if p["time_seconds"] > START_S]
    usage = [point["usage_bytes"][0] / sum(point["usage_bytes"]) for point in points]
    return all(point["p99_ms"] <= slo for point in points), float(np.mean(usage))


def maximum_load(scenario: Path, act: Policy, seed: int) -> tuple[float, float]:
    """Finds, by bisection, the greatest load that meets the objective, in shares of the published
    maximum, and the share of the service's memory that is fast under it. Returns 0 if even one step
    of load is too high."""
    low, high, usage = 0, round(1.0 / LOAD_STEP) + 1, 0.0
    while high - low > 1:
        middle = (low + high) // 2
        met, used = meets(scenario, middle * LOAD_STEP, act, seed)
        if met:
            low, usage = middle, used
        else:
            high = middle
    return low * LOAD_STEP, usage


def write_maximum_loads(models: list[Path], scenarios: list[Path], seed: int, file: Path) -> None:
    """Writes a line for every scenario and model, and for two constant policies: always more, and
    always less."""
    policies: dict[str, Policy] = {model.name: policy(model) for model in models}
    policies["always more"] = lambda state: 1.0
    policies["always less"] = lambda state: -1.0
    with file.open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(("scenario", "policy", "maximum_load", "usage_ratio"))
        for scenario, (name, act) in itertools.product(scenarios, policies.items()):
            load, usage = maximum_load(scenario, act, seed)
            line = (scenario.stem, name, f"{load:.2f}", f"{usage:.3f}")
            table.writerow(line)
            stream.flush()
            print(*line, flush=True)


def plot(curves: list[Path], image: Path) -> None:
    """Draws mean rewards over transitions, with one panel per scenario."""
    import matplotlib

    matplotlib.use("svg")
    # Without a salt, names in the file differ from run to run.
    matplotlib.rcParams["svg.hashsalt"] = "tierwise"
    from matplotlib import pyplot

    lines = {curve.stem: list(csv.DictReader(curve.open())) for curve in curves}
    scenarios = sorted({row["scenario"] for rows in lines.values() for row in rows})
    figure, panels = pyplot.subplots(
        1, len(scenarios), figsize=(9, 3.4), sharey=True, squeeze=False
    )
    for scenario, panel in zip(scenarios, panels[0], strict=True):
        for name, rows in lines.items():
            own = [row for row in rows if row["scenario"] == scenario]
            panel.plot(
                [int(row["transitions"]) for row in own],
                [float(row["mean_reward"]) for row in own],
                label=name.removeprefix("learning-"),
            )
        panel.set_title(scenario)
        panel.set_xlabel("transitions, of both scenarios")
        panel.grid(alpha=0.3)
    panels[0][0].set_ylabel("mean reward of an episode")
    panels[0][0].legend()
    figure.tight_layout()
    figure.savefig(image, metadata={"Date": None})


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tierwise.train", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="learn, and write a model and a learning curve")
    train.add_argument("--algorithm", choices=("sac-rust", "sac-sb3"), required=True)
    train.add_argument("--transitions", type=int, default=4_800)
    train.add_argument("--model", type=Path, required=True, help="without its suffix")
    train.add_argument("--curve", type=Path, required=True, help="the CSV to write")
    train.add_argument("scenarios", type=Path, nargs="+")
    loads = commands.add_parser("maximum-load", help="the load that trained models serve")
    loads.add_argument("--models", type=Path, nargs="*", default=[])
    loads.add_argument("--table", type=Path, required=True, help="the CSV to write")
    loads.add_argument("scenarios", type=Path, nargs="+")
    draw = commands.add_parser("plot", help="draw learning curves")
    draw.add_argument("--image", type=Path, required=True)
    draw.add_argument("curves", type=Path, nargs="+")
    return parser.parse_args()


def main() -> None:
    """Executes the command line."""
    asked = arguments()
    if asked.command == "plot":
        plot(asked.curves, asked.image)
    elif asked.command == "maximum-load":
        write_maximum_loads(asked.models, asked.scenarios, asked.seed, asked.table)
    else:
        env = Alternating(asked.scenarios, asked.curve)
        learn = train_rust if asked.algorithm == "sac-rust" else train_sb3
        learn(env, asked.transitions, asked.seed, asked.model)
        env.close()


if __name__ == "__main__":
    try:
        main()
    except (tierwise.TierwiseError, OSError) as error:
        raise SystemExit(f"{os.path.basename(__file__)}: {error}") from None
