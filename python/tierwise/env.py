"""The Gymnasium environment: an agent sets a latency-critical service's share of fast memory.

The formulation is that of MTAT (Kim et al., Middleware 2025, section 3.2.1):

- *Observation*: usage ratio (share of the service's memory that is fast), access ratio (share of
  its accesses that the fast tier served) and load (accesses over the maximum in an interval of the
  episode), each from 0 to 1.
- *Action*: -1 to 1, a share of the largest change, down or up, that the memory's bandwidth allows
  in an interval (equation 1).
- *Reward* (equation 2): 1 less the usage ratio if the interval's 99th percentile of response times
  met the objective, otherwise -1.

A step is an action interval of the recipe: a virtual second with ``mtat``. The engine does
everything else under that recipe: it runs the other programs, finds the hot pages and moves pages.
"""

import math
import os
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from tierwise import _tierwise
from tierwise.simulation import overrides_json

#: The number of seeds that the engine accepts.
_SEEDS = 2**63

Observation = NDArray[np.float32]
Action = NDArray[np.float32]


class TierwiseEnv(gymnasium.Env[Observation, Action]):
    """One latency-critical service of a scenario, on the simulated host.

    Episodes are truncated, never terminated. ``info["measured"]`` is true if a request was answered
    in the interval. Otherwise there is no response time, and the reward is 0.

    Args:
        scenario: The scenario file, with exactly one latency-critical workload.
        recipe: A recipe that learns, by name or as a file that ends in ``.toml``.
        load: The load of its services, in shares of their maximum; by default the file's.
        episode_length: Steps in an episode; by default the scenario's ``duration_s``, one second
            per step.
        overrides: Other changes to the scenario; see `tierwise.Simulation`.

    Raises:
        FileNotFoundError: The file does not exist.
        TierwiseError: The file or an argument is wrong; the message gives the reason.
    """

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(
        self,
        scenario: str | os.PathLike[str],
        *,
        recipe: str = "mtat",
        load: float | None = None,
        episode_length: int | None = None,
        overrides: Mapping[str, Any] | None = None,
    ) -> None:
        if episode_length is not None and episode_length < 1:
            raise ValueError(f"episode_length is {episode_length}; allowed: 1 or more")
        self.observation_space = spaces.Box(0.0, 1.0, (3,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self._inner = _tierwise.Environment(
            os.fspath(scenario),
            recipe=recipe,
            overrides=overrides_json(overrides),
            load=load,
            duration_s=episode_length,
        )
        self.episode_length = episode_length or math.ceil(self._inner.duration_s)
        self._steps = 0
        self._last = np.zeros(3, np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts an episode. Equal seeds and actions give equal episodes; there are no options."""
        super().reset(seed=seed, options=options)
        self._steps = 0
        state = self._inner.reset(int(self.np_random.integers(_SEEDS)))
        self._last = np.array(state, np.float32)
        return self._last, {"measured": True}

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Takes an action, and runs one interval."""
        outcome = self._inner.step(float(np.asarray(action).item()))
        self._steps += 1
        if outcome is None:
            return self._last, 0.0, False, True, {"measured": False}
        state, reward = outcome
        self._last = np.array(state, np.float32)
        truncated = self._steps >= self.episode_length
        return self._last, reward or 0.0, False, truncated, {"measured": reward is not None}

    def close(self) -> None:
        """Ends the current episode and its thread."""
        self._inner.close()
