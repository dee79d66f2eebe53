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

Compare policies, your own in NumPy among them (`PythonPolicy`), and take the results as a table::

    comparison = tierwise.compare("scenarios/zipf.toml", ["static", "tpp", policy])
    print(comparison.policies().to_pandas())

Run thousands of simulations on any executor, each once: `tierwise.sweep`.

Or train an agent with any library for Gymnasium environments::

    import gymnasium

    env = gymnasium.make("tierwise/FastTier-v0", scenario="scenarios/mtat/redis.toml")
"""

import pkgutil
from typing import TYPE_CHECKING, Any

from tierwise._tierwise import Sac, TierwiseError
from tierwise.model import Generator, Machine, Recipe, Scenario, Service, Workload
from tierwise.registration import register_when_gymnasium_comes
from tierwise.simulation import Agent, Comparison, Simulation, State, compare, run
from tierwise.table import Table
from tierwise.trace import read_trace

if TYPE_CHECKING:
    from tierwise.env import TierwiseEnv
    from tierwise.policy import Pages, PythonPolicy

# tierwise.emt is a separate distribution under the same name.
__path__ = pkgutil.extend_path(__path__, __name__)

__all__ = [
    "Agent",
    "Comparison",
    "Generator",
    "Machine",
    "Pages",
    "PythonPolicy",
    "Recipe",
    "Sac",
    "Scenario",
    "Service",
    "Simulation",
    "State",
    "Table",
    "TierwiseEnv",
    "TierwiseError",
    "Workload",
    "compare",
    "read_trace",
    "run",
]

register_when_gymnasium_comes()


def __getattr__(name: str) -> Any:
    # Their modules import Gymnasium and numpy.
    if name == "TierwiseEnv":
        from tierwise.env import TierwiseEnv

        return TierwiseEnv
    if name in ("Pages", "PythonPolicy"):
        from tierwise import policy

        return getattr(policy, name)
    raise AttributeError(
        f"module 'tierwise' has no attribute {name!r}; it has: {', '.join(__all__)}"
    )
