"""The compiled part. Use the package's names, whose functions return dictionaries and typed
values."""

from collections.abc import Callable
from os import PathLike
from typing import Self, final

__all__ = [
    "Environment",
    "TierwiseError",
    "to_toml",
    "Sac",
    "Simulation",
    "SweepPlan",
    "SweepStore",
    "run_unit",
    "read_trace",
]

_State = tuple[float, float, float]
_Estimator = tuple[Callable[..., bytes], float, int, bool]

class TierwiseError(Exception):
    """The request cannot be served. The message has the reason and the remedy."""

@final
class Simulation:
    def __new__(
        cls,
        scenario: str | PathLike[str],
        *,
        text: str | None = None,
        overrides: str | None = None,
        load: float | None = None,
    ) -> Self: ...
    def run(
        self,
        recipe: str,
        *,
        text: str | None = None,
        seed: int = 1,
        agent: Callable[[_State, float | None], float] | None = None,
        estimator: _Estimator | None = None,
        timeline_s: float | None = None,
    ) -> str: ...

@final
class Environment:
    def __new__(
        cls,
        scenario: str | PathLike[str],
        *,
        recipe: str = "mtat",
        overrides: str | None = None,
        load: float | None = None,
        duration_s: float | None = None,
    ) -> Self: ...
    @property
    def duration_s(self) -> float: ...
    def reset(self, seed: int) -> _State: ...
    def step(self, act: float) -> tuple[_State, float | None] | None: ...
    def close(self) -> None: ...

@final
class Sac:
    """Tierwise's Soft Actor-Critic in Rust: states of three numbers, one action in -1 to 1."""

    def __new__(cls, *, seed: int = 1) -> Self: ...
    @staticmethod
    def load(path: str | PathLike[str], *, seed: int = 1) -> Sac: ...
    def act(self, state: _State) -> float: ...
    def act_mean(self, state: _State) -> float: ...
    def store(
        self, state: _State, action: float, reward: float, next: _State, done: bool
    ) -> bool: ...
    @property
    def temperature(self) -> float: ...
    @property
    def steps(self) -> int: ...
    def save(self, path: str | PathLike[str]) -> None: ...
    def export_onnx(self, path: str | PathLike[str]) -> None: ...

def to_toml(json: str) -> str: ...
def read_trace(path: str | PathLike[str], table: str) -> dict[str, bytes | list[str]]: ...
def run_unit(unit: str) -> str:
    """Runs a unit of a sweep, which is JSON, and returns its record as JSON."""

@final
class SweepPlan:
    """A plan's units, each with its key."""

    def __new__(cls, path: str | PathLike[str], *, text: str | None = None) -> Self: ...
    @property
    def name(self) -> str: ...
    def __len__(self) -> int: ...
    def units(self) -> list[str]: ...

@final
class SweepStore:
    """The results of a directory."""

    def __new__(cls, directory: str | PathLike[str], plan: SweepPlan) -> Self: ...
    def missing(self) -> list[str]: ...
    def append(self, record: str) -> None: ...
    def sync(self) -> None: ...
    def write(self, units: str | PathLike[str], tenants: str | PathLike[str]) -> int: ...
