"""The user's settings, and their parsing from text."""

import contextlib
import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

#: The largest size in bytes, 4096 TiB, as in the engine's files.
LARGEST = 1 << 52
UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
SIGNALS = ("uffd-wp", "uffd-rwp")
DEMOTIONS = ("adaptive", "eager", "lazy")

#: The prefix of environment variables; the setting's name in capitals follows.
PREFIX = "TIERWISE_EMT_"
#: Variables that autostart.py reads beside settings.
OTHER_VARIABLES = ("DAEMON", "METRICS", "PROFILE", "REPORT")
#: Prefixes of the variables of the build (setup.py) and the benchmarks (bench/).
OF_TOOLS = ("REQUIRE_EXTENSION", "CFLAGS", "BENCH_")


def bytes_of(size: int | str) -> int:
    """Converts a size to bytes.

    >>> bytes_of("1GiB"), bytes_of("1.5 MiB"), bytes_of(4096)
    (1073741824, 1572864, 4096)

    Raises:
        ValueError: The value is not a size.
    """
    number: float = -1
    unit = ""
    if type(size) is int:
        number = size
    elif isinstance(size, str):
        digits = size.rstrip("BKMGTi ")
        unit = size[len(digits) :].strip()
        with contextlib.suppress(ValueError):
            number = float(digits)
    # Two comparisons, because the product of a large number may not be finite.
    if unit not in UNITS or not 0 <= number <= LARGEST or number * UNITS[unit] > LARGEST:
        raise ValueError(
            f"{size!r} is no size; allowed: a number of bytes, or one with "
            f"{', '.join(list(UNITS)[1:])}, such as '1GiB', up to 4096TiB"
        )
    return int(number * UNITS[unit])


def nodes_of(name: str, nodes: Iterable[int]) -> tuple[int, ...]:
    """Returns the nodes of a setting.

    >>> nodes_of("slow_nodes", [1, 2])
    (1, 2)

    Raises:
        ValueError: The value is not a list of numbers.
    """
    refused = ValueError(f"{name} is {nodes!r}; allowed: a list of node numbers, such as [1]")
    try:
        found = tuple(nodes)
    except TypeError:
        raise refused from None
    if not all(type(node) is int for node in found):
        raise refused
    return found


class _Values(NamedTuple):
    slow_nodes: tuple[int, ...]
    """NUMA nodes to which cold pages move. Without any, pages are only tracked."""
    fast_nodes: tuple[int, ...]
    """Nodes to which hot pages move; by default all others with memory."""
    mem_pressure: int | str
    """Promotions leave this much of the fast nodes' memory free. A page that is to be promoted
    beyond it is exchanged for a cold one."""
    sample_interval: float
    """Seconds of a sampling phase."""
    overhead_budget: float
    """The share of the program's CPU time that all of this may add: its import and start, tracking
    and moving."""
    signal: str
    """The kernel's report of uses: "uffd-wp" of writes, "uffd-rwp" of reads and writes."""
    demotion: str
    """The rule for the demotion of cold pages: "adaptive", "eager" or "lazy"."""


class Settings(_Values):
    """Settings of tracking and tiering.

    >>> Settings(slow_nodes=(1,), mem_pressure="1GiB").reserve_bytes
    1073741824

    Raises:
        ValueError: A value is not allowed; the text names it and the allowed ones.
    """

    __slots__ = ()

    def __new__(
        cls,
        *,
        slow_nodes: Iterable[int] = (),
        fast_nodes: Iterable[int] = (),
        mem_pressure: int | str = "1GiB",
        sample_interval: float = 0.25,
        overhead_budget: float = 0.02,
        signal: str = "uffd-wp",
        demotion: str = "adaptive",
    ) -> "Settings":
        values = super().__new__(
            cls,
            nodes_of("slow_nodes", slow_nodes),
            nodes_of("fast_nodes", fast_nodes),
            mem_pressure,
            sample_interval,
            overhead_budget,
            signal,
            demotion,
        )
        values._check()
        return values

    def _check(self) -> None:
        choices = {"signal": SIGNALS, "demotion": DEMOTIONS}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}; allowed: {', '.join(allowed)}"
                )
        for name in ("sample_interval", "overhead_budget"):
            if type(getattr(self, name)) not in (int, float):
                raise ValueError(f"{name} is {getattr(self, name)!r}; allowed: a number")
        if not 0.01 <= self.sample_interval <= 60.0:
            raise ValueError(
                f"sample_interval is {self.sample_interval}; allowed: 0.01 to 60 seconds"
            )
        if not 0.0 < self.overhead_budget <= 1.0:
            raise ValueError(
                f"overhead_budget is {self.overhead_budget}; allowed: more than 0, at most 1"
            )
        for name in ("slow_nodes", "fast_nodes"):
            if any(not 0 <= node < 64 for node in getattr(self, name)):
                raise ValueError(
                    f"{name} is {getattr(self, name)}; allowed: node numbers from 0 to 63"
                )
        if both := set(self.slow_nodes) & set(self.fast_nodes):
            raise ValueError(
                f"node {min(both)} is in slow_nodes and in fast_nodes; allowed: one of them"
            )
        bytes_of(self.mem_pressure)

    @property
    def reserve_bytes(self) -> int:
        """mem_pressure in bytes."""
        return bytes_of(self.mem_pressure)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        """Returns the settings of variables such as TIERWISE_EMT_SLOW_NODES=1,2; the others have
        their defaults.

        >>> given = {"TIERWISE_EMT_SLOW_NODES": "1,2", "TIERWISE_EMT_SAMPLE_INTERVAL": "0.5"}
        >>> Settings.from_environment(given).slow_nodes
        (1, 2)
        """
        known = {PREFIX + field.upper() for field in cls._fields} | {
            PREFIX + name for name in OTHER_VARIABLES
        }
        for name in sorted(environment):
            # Variables of the build and of the benchmarks are not settings of a run.
            if (
                name.startswith(PREFIX)
                and name not in known
                and not name.startswith(tuple(PREFIX + word for word in OF_TOOLS))
            ):
                # Imported here, because it costs more than the rest of the package's start.
                from difflib import get_close_matches

                near = get_close_matches(name, known, n=1, cutoff=0.0)[0]
                raise ValueError(f"{name} is no setting; the nearest is {near}")
        values: dict[str, object] = {}
        for field in cls._fields:
            name = PREFIX + field.upper()
            if (text := environment.get(name)) is not None:
                values[field] = _parse(name, field, text)
        return cls(**values)  # type: ignore[arg-type]


def _parse(variable: str, name: str, text: str) -> object:
    try:
        if name.endswith("_nodes"):
            return tuple(int(word) for word in text.split(",") if word.strip())
        if name in ("sample_interval", "overhead_budget"):
            return float(text)
    except ValueError as error:
        allowed = "node numbers with commas between" if name.endswith("_nodes") else "a number"
        raise ValueError(f"{variable} is {text!r}; allowed: {allowed}") from error
    return text


def mask_of_nodes(nodes: Iterable[int]) -> int:
    """Returns the mask of nodes: bit n is node n."""
    return sum(1 << node for node in set(nodes))
