"""The compiled part. Use the package's names, whose functions return dictionaries and typed
values."""

from collections.abc import Callable
from os import PathLike

_State = tuple[float, float, float]

class TierwiseError(Exception):
    """The request cannot be served. The message has the reason and the remedy."""

class Simulation:
    def __init__(
        self,
        scenario: str | PathLike[str],
        *,
        overrides: str | None = None,
        load: float | None = None,
    ) -> None: ...
    def run(
        self,
        recipe: str,
        *,
        seed: int = 1,
        agent: Callable[[_State, float | None], float] | None = None,
        timeline_s: float | None = None,
    ) -> str: ...

class Environment:
    def __init__(
        self,
        scenario: str | PathLike[str],
        *,
        recipe: str = "mtat",
        overrides: str | None = None,
        load: float | None = None,
        duration_s: float | None = None,
    ) -> None: ...
    @property
    def duration_s(self) -> float: ...
    def reset(self, seed: int) -> _State: ...
    def step(self, act: float) -> tuple[_State, float | None] | None: ...
    def close(self) -> None: ...

class Sac:
    """Tierwise's Soft Actor-Critic in Rust: states of three numbers, one action in -1 to 1."""

    def __init__(self, *, seed: int = 1) -> None: ...
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
