"""Runs of a scenario, from start to end."""

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from tierwise import _tierwise
from tierwise.model import Recipe, Scenario
from tierwise.table import Table

if TYPE_CHECKING:
    from tierwise.policy import PythonPolicy

#: A scenario's file, or an object.
AnyScenario = str | os.PathLike[str] | Scenario


class State(NamedTuple):
    """An agent's observation of its service (MTAT, section 3.2.1), each from 0 to 1."""

    #: Share of its memory that is fast.
    usage_ratio: float
    #: Share of its accesses that the fast tier served.
    access_ratio: float
    #: Its accesses in the interval, over the maximum in one.
    load: float


#: A function of the state and of the reward of the last action (``None`` if there was none, or no
#: request was reported). It returns the action from -1 to 1: a share of the largest step, down or
#: up.
Agent = Callable[[State, float | None], float]


def overrides_json(overrides: Mapping[str, Any] | None) -> str | None:
    """Returns overrides as JSON, the form in which the engine receives them."""
    return None if overrides is None else json.dumps(dict(overrides))


class Simulation:
    """A scenario with its traces loaded, for any number of runs.

    Args:
        scenario: The scenario file, or a `Scenario`.
        overrides: Changes to the scenario. Keys are paths with workloads' names:
            ``{"machine.fast": "16GB", "workload.redis.weight": 200}``.
        load: The load of its services, in shares of their maximum; it replaces ``service.load``.

    Raises:
        FileNotFoundError: The file does not exist.
        TierwiseError: The file or an argument is wrong; the message gives the reason.
    """

    def __init__(
        self,
        scenario: AnyScenario,
        *,
        overrides: Mapping[str, Any] | None = None,
        load: float | None = None,
    ) -> None:
        name, text = _source(scenario)
        self._inner = _tierwise.Simulation(
            name, text=text, overrides=overrides_json(overrides), load=load
        )

    def run(
        self,
        recipe: "str | Recipe | PythonPolicy" = "mtat",
        *,
        seed: int = 1,
        agent: Agent | None = None,
        timeline_s: float | None = None,
    ) -> dict[str, Any]:
        """Runs a recipe to the scenario's end. The same arguments give the same answer.

        Args:
            recipe: The name of a recipe that ships, a file that ends in ``.toml``, a `Recipe`, or a
                `PythonPolicy`.
            seed: The random seed.
            agent: The agent of recipes that learn; by default the learner that ships.
            timeline_s: Virtual seconds between two points of the timeline; by default there is no
                timeline.

        Returns:
            ``result``, as ``tierwise compare --json`` prints a policy's, and ``timeline``, a list
            of points as ``tierwise simulate`` prints them.
        """
        estimator = None
        if not isinstance(recipe, str | Recipe):
            estimator = recipe.estimator()
            recipe = recipe.recipe()
        name, text = (recipe, None) if isinstance(recipe, str) else (recipe.name, recipe.to_toml())
        output = self._inner.run(
            name,
            text=text,
            seed=seed,
            agent=None if agent is None else _typed(agent),
            estimator=estimator,
            timeline_s=timeline_s,
        )
        answer: dict[str, Any] = json.loads(output)
        return answer

    def compare(
        self,
        policies: "Iterable[str | Recipe | PythonPolicy]",
        *,
        seed: int = 1,
    ) -> "Comparison":
        """Runs several policies on the same programs; see `run` for what a policy may be."""
        results, seconds = [], []
        for policy in policies:
            start = time.perf_counter()
            results.append(self.run(policy, seed=seed)["result"])
            seconds.append(time.perf_counter() - start)
        return Comparison(results, seconds)


def _source(scenario: AnyScenario) -> tuple[str, str | None]:
    """A scenario's file; or a name, and the text of an object."""
    if isinstance(scenario, Scenario):
        return scenario.name, scenario.to_toml()
    return os.fspath(scenario), None


@dataclass(frozen=True)
class Comparison:
    """Several policies on the same programs."""

    #: One result per policy, as ``tierwise compare --json`` prints them.
    results: list[dict[str, Any]]
    #: Seconds of real time that each run took.
    run_seconds: list[float]

    def policies(self) -> Table:
        """A row per policy."""
        rows = [
            {key: value for key, value in result.items() if key != "tenants"}
            for result in self.results
        ]
        pairs = zip(rows, self.run_seconds, strict=True)
        return Table.of_rows([{**row, "run_seconds": seconds} for row, seconds in pairs])

    def tenants(self) -> Table:
        """A row per policy and tenant; response times of services are columns of their own."""
        return Table.of_rows(
            [
                {"policy": result["policy"], **_flat(tenant)}
                for result in self.results
                for tenant in result["tenants"]
            ]
        )


def _flat(tenant: Mapping[str, Any]) -> dict[str, Any]:
    flat = {key: value for key, value in tenant.items() if not isinstance(value, dict)}
    for tier, usage in tenant["usage_bytes"].items():
        flat[f"usage_bytes.{tier}"] = usage
    latency: Mapping[str, Any] = tenant.get("latency", {})
    return {**flat, **{f"latency.{key}": value for key, value in latency.items()}}


def _typed(agent: Agent) -> Callable[[tuple[float, float, float], float | None], float]:
    return lambda state, reward: float(agent(State(*state), reward))


def run(
    scenario: AnyScenario,
    recipe: "str | Recipe | PythonPolicy" = "mtat",
    *,
    seed: int = 1,
    overrides: Mapping[str, Any] | None = None,
    load: float | None = None,
    agent: Agent | None = None,
    timeline_s: float | None = None,
) -> dict[str, Any]:
    """Runs one recipe on one scenario; see `Simulation` and `Simulation.run`."""
    simulation = Simulation(scenario, overrides=overrides, load=load)
    return simulation.run(recipe, seed=seed, agent=agent, timeline_s=timeline_s)


def compare(
    scenario: AnyScenario,
    policies: "Iterable[str | Recipe | PythonPolicy]",
    *,
    seed: int = 1,
    overrides: Mapping[str, Any] | None = None,
    load: float | None = None,
) -> Comparison:
    """Runs several policies on one scenario; see `Simulation` and `Simulation.compare`."""
    return Simulation(scenario, overrides=overrides, load=load).compare(policies, seed=seed)
