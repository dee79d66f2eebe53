"""Tierwise: decides whose pages live in which memory tier.

Run a policy on a scenario::

    import tierwise

    result = tierwise.run("scenarios/zipf.toml", "multi-clock")["result"]
    print(result["slowdown"])

Let a Python function decide how much fast memory a latency-critical service gets, once a virtual second::

    def more_when_slow(state, reward):
        return 1.0 if reward is not None and reward < 0 else -0.05

    tierwise.run("scenarios/mtat/redis.toml", "mtat", agent=more_when_slow)

Or learn it with any library that takes a Gymnasium environment::

    import gymnasium

    env = gymnasium.make("tierwise/FastTier-v0", scenario="scenarios/mtat/redis.toml")
"""

from tierwise._tierwise import Sac, TierwiseError
from tierwise.env import TierwiseEnv, register
from tierwise.simulation import Agent, Simulation, State, run

__all__ = ["Agent", "Sac", "Simulation", "State", "TierwiseEnv", "TierwiseError", "run"]

register()
