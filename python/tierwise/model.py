"""Scenarios and recipes as objects.

Each class has the keys that most files use as fields, and ``more`` for the others, by the same
names as in the files (`scenarios/`, `recipes/`). The engine checks all of them, and an error names
the key.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tierwise import _tierwise

#: Bytes, or a text such as ``"64MiB"``.
Size = int | str

#: What a table of TOML holds.
Values = Mapping[str, Any]


def _present(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine with a fast and a slow tier. A size is absolute, or a share of what the workloads
    need."""

    preset: str = "dram-cxl"
    fast: Size | None = None
    slow: Size | None = None
    fast_share: float | None = None
    slow_share: float | None = None
    more: Values = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The table ``[machine]``."""
        sizes = _present(fast=self.fast, slow=self.slow)
        shares = _present(fast_share=self.fast_share, slow_share=self.slow_share)
        return {"preset": self.preset, **sizes, **shares, **self.more}


@dataclass(frozen=True, kw_only=True)
class Generator:
    """A generated program with a known working set."""

    pattern: str
    footprint: Size
    windows: int | None = None
    more: Values = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The table ``[workload.generator]``."""
        return {
            "pattern": self.pattern,
            "footprint": self.footprint,
            **_present(windows=self.windows),
            **self.more,
        }


@dataclass(frozen=True, kw_only=True)
class Service:
    """A service that answers requests."""

    footprint: Size
    max_per_second: float
    load: float | Sequence[float]
    more: Values = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The table ``[workload.service]``."""
        load = self.load if isinstance(self.load, (int, float)) else list(self.load)
        return {
            "footprint": self.footprint,
            "max_per_second": self.max_per_second,
            "load": load,
            **self.more,
        }


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A program of a scenario: a recorded trace's path, a generator, or a service."""

    name: str
    source: str | Generator | Service
    slo_ms: float | None = None
    weight: int | None = None
    more: Values = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """An element of ``[[workload]]``."""
        match self.source:
            case Generator():
                source: dict[str, Any] = {"generator": self.source.to_dict()}
            case Service():
                source = {"service": self.source.to_dict()}
            case path:
                source = {"trace": path}
        known = _present(slo_ms=self.slo_ms, weight=self.weight)
        return {"name": self.name, **known, **source, **self.more}


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A machine, and workloads that run on it for a time. Paths of traces start at the working
    directory."""

    name: str
    machine: Machine
    workloads: Sequence[Workload]
    summary: str = "made in Python"
    duration_s: float | None = None
    more: Values = field(default_factory=dict)

    def to_toml(self) -> str:
        """The text of a scenario file."""
        table = {
            "name": self.name,
            "summary": self.summary,
            **_present(duration_s=self.duration_s),
            "machine": self.machine.to_dict(),
            "workload": [workload.to_dict() for workload in self.workloads],
            **self.more,
        }
        return _tierwise.to_toml(json.dumps(table))


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A policy with its parameters: stages, or a whole policy, each a table with ``algorithm``."""

    name: str
    estimator: Values | None = None
    partitioner: Values | None = None
    selector: Values | None = None
    placement: Values | None = None
    policy: Values | None = None
    summary: str = "made in Python"
    source: str = "Python"

    def to_toml(self) -> str:
        """The text of a recipe file."""
        stages = _present(
            estimator=self.estimator,
            partitioner=self.partitioner,
            selector=self.selector,
            placement=self.placement,
            policy=self.policy,
        )
        words = {"name": self.name, "summary": self.summary, "source": self.source}
        tables = {name: dict(stage) for name, stage in stages.items()}
        return _tierwise.to_toml(json.dumps({**words, **tables}))
