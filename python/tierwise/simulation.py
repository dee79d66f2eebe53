"""Runs of a scenario, from start to end."""

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tierwise import _tierwise


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
        scenario: The scenario file.
        overrides: Changes to the scenario. Keys are paths with workloads' names:
            ``{"machine.fast": "16GB", "workload.redis.weight": 200}``.
        load: The load of its services, in shares of their maximum; it replaces ``service.load``.

    Raises:
        FileNotFoundError: The file does not exist.
        TierwiseError: The file or an argument is wrong; the message gives the reason.
    """

    def __init__(
        self,
        scenario: str | os.PathLike[str],
        *,
        overrides: Mapping[str, Any] | None = None,
        load: float | None = None,
    ) -> None:
        self._inner = _tierwise.Simulation(
            os.fspath(scenario), overrides=overrides_json(overrides), load=load
        )

    def run(
        self,
        recipe: str = "mtat",
        *,
        seed: int = 1,
        agent: Agent | None = None,
        timeline_s: float | None = None,
    ) -> dict[str, Any]:
        """Runs a recipe to the scenario's end. The same arguments give the same answer.

        Args:
            recipe: The name of a recipe that ships, or a file that ends in ``.toml``.
            seed: The random seed.
            agent: The agent of recipes that learn; by default the learner that ships.
            timeline_s: Virtual seconds between two points of the timeline; by default there is no
                timeline.

        Returns:
            ``result``, as ``tierwise compare --json`` prints a policy's, and ``timeline``, a list
            of points as ``tierwise simulate`` prints them.
        """
        function = None if agent is None else _typed(agent)
        text = self._inner.run(recipe, seed=seed, agent=function, timeline_s=timeline_s)
        answer: dict[str, Any] = json.loads(text)
        return answer


def _typed(agent: Agent) -> Callable[[tuple[float, float, float], float | None], float]:
    return lambda state, reward: float(agent(State(*state), reward))


def run(
    scenario: str | os.PathLike[str],
    recipe: str = "mtat",
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
