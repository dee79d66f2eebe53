"""The simulator's counterparts of the policies that the guests run."""

from dataclasses import dataclass

# The shipped recipe, with the scan period that the guests give the kernel (bench/policies.py).
AUTONUMA_RECIPE = """\
name = "autonuma-100"
summary = "NUMA balancing's memory tiering, with a scan period of 0.1 s"
source = "as recipes/autonuma.toml"

[policy]
algorithm = "autonuma"
scan_size = "256MiB"
scan_period_min_ms = 100
hot_threshold_ms = 1000
adjust_period_ms = 60000
promote_rate_limit_mbps = 65536
free_enough = "1GiB"
"""


@dataclass(frozen=True)
class Simulated:
    """A policy of the guests, and the recipe that simulates it."""

    name: str
    recipe: str
    by_page: bool
    """True if it places pages, as the kernel does; otherwise it places the daemon's blocks."""
    text: str = ""
    """The text of a recipe that does not ship."""


SIMULATED = (
    Simulated("all-fast", "fmem-all", by_page=True),
    Simulated("first-touch", "static", by_page=True),
    Simulated("kernel-tiering", "autonuma-100", by_page=True, text=AUTONUMA_RECIPE),
    Simulated("multi-clock", "multi-clock", by_page=False),
    Simulated("memtis", "memtis", by_page=False),
    Simulated("tierwise", "tierwise", by_page=False),
)
