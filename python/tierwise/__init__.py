"""Tierwise: selects the memory tier of each page.

Run a policy on a scenario::

    import tierwise

    result = tierwise.run("scenarios/zipf.toml", "multi-clock")["result"]
    print(result["slowdown"])

Let a Python function set a latency-critical service's share of fast memory, once per virtual
second::

    def more_when_slow(state, reward):
        return 1.0 if reward is not None and reward < 0 else -0.05

    tierwise.run("scenarios/mtat/redis.toml", "mtat", agent=more_when_slow)

Or train an agent with any library for Gymnasium environments::

    import gymnasium

    env = gymnasium.make("tierwise/FastTier-v0", scenario="scenarios/mtat/redis.toml")
"""

import pkgutil
from typing import TYPE_CHECKING, Any

from tierwise._tierwise import Sac, TierwiseError
from tierwise.registration import register_when_gymnasium_comes
from tierwise.simulation import Agent, Simulation, State, run

if TYPE_CHECKING:
    from tierwise.env import TierwiseEnv

# tierwise.emt is a separate distribution under the same name.
__path__ = pkgutil.extend_path(__path__, __name__)

__all__ = ["Agent", "Sac", "Simulation", "State", "TierwiseEnv", "TierwiseError", "run"]

register_when_gymnasium_comes()


def __getattr__(name: str) -> Any:
    # Its module imports Gymnasium and numpy.
    if name == "TierwiseEnv":
        from tierwise.env import TierwiseEnv

        return TierwiseEnv
    raise AttributeError(
        f"module 'tierwise' has no attribute {name!r}; it has: {', '.join(__all__)}"
    )
