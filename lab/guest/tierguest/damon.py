"""DAMON through its sysfs: one context that monitors one process for a test."""

from dataclasses import dataclass
from pathlib import Path

from .files import read, write

DAMON = Path("/sys/kernel/mm/damon/admin/kdamonds")
# While the kernel's DAMON monitors the machine for its own statistics, no other user can start it.
DAMON_STAT = Path("/sys/module/damon_stat/parameters/enabled")
# The kernel's own defaults.
SAMPLE_US = 5000
AGGREGATE_US = 100000
REGIONS = (10, 1000)


@dataclass(frozen=True)
class Region:
    """A range of addresses that DAMON assumes to be accessed alike; of `samples` checks, `accesses`
    found it accessed."""

    start: int
    end: int
    accesses: int
    age: int

    def overlap(self, start: int, size: int) -> int:
        """Returns the bytes in common with a range."""
        return max(0, min(self.end, start + size) - max(self.start, start))


class Damon:
    """Monitors the virtual addresses of one process inside a `with` block, whose end stops the
    kdamond.

    `action` applies to every region that at least `min_accesses` checks found accessed in each of
    `min_age` aggregations; migrations move pages to `target_node`. Without an action there is no
    scheme. `bounds` are the least and the greatest number of regions.
    """

    def __init__(
        self,
        pid: int,
        sample_us: int = SAMPLE_US,
        aggregate_us: int = AGGREGATE_US,
        action: str | None = "stat",
        min_accesses: int = 0,
        min_age: int = 0,
        target_node: int | None = None,
        bounds: tuple[int, int] = REGIONS,
    ) -> None:
        self.pid = pid
        self._bounds = bounds
        self._scheme = (action, min_accesses, min_age, target_node)
        self.samples = aggregate_us // sample_us
        self._intervals = {
            "sample_us": sample_us,
            "aggr_us": aggregate_us,
            "update_us": 10 * aggregate_us,
        }
        self.kdamond = DAMON / "0"
        self.scheme = self.kdamond / "contexts/0/schemes/0"

    def __enter__(self) -> "Damon":
        make_room()
        write(DAMON / "nr_kdamonds", 1)
        write(self.kdamond / "contexts/nr_contexts", 1)
        context = self.kdamond / "contexts/0"
        write(context / "operations", "vaddr")
        for name, value in self._intervals.items():
            write(context / "monitoring_attrs/intervals" / name, value)
        least, greatest = self._bounds
        # The kernel refuses a least number above the greatest at any time.
        write(context / "monitoring_attrs/nr_regions/max", greatest)
        write(context / "monitoring_attrs/nr_regions/min", least)
        write(context / "targets/nr_targets", 1)
        write(context / "targets/0/pid_target", self.pid)
        if self._scheme[0] is not None:
            write(context / "schemes/nr_schemes", 1)
            self._write_scheme()
        write(self.kdamond / "state", "on")
        return self

    def _write_scheme(self) -> None:
        action, min_accesses, min_age, target_node = self._scheme
        write(self.scheme / "action", action)
        if target_node is not None:
            write(self.scheme / "target_nid", target_node)
        pattern = self.scheme / "access_pattern"
        # The largest numbers of their types are the widest bounds.
        write(pattern / "sz/max", 2**64 - 1)
        write(pattern / "nr_accesses/min", min_accesses)
        write(pattern / "nr_accesses/max", 2**32 - 1)
        write(pattern / "age/min", min_age)
        write(pattern / "age/max", 2**32 - 1)

    def __exit__(self, *_: object) -> None:
        if read(self.kdamond / "state") == "on":
            write(self.kdamond / "state", "off")
        write(DAMON / "nr_kdamonds", 0)

    def running(self) -> bool:
        """Returns true if its kdamond is on."""
        return read(self.kdamond / "state") == "on"

    def applied_bytes(self) -> int:
        """Returns the bytes to which the action was applied since the start."""
        write(self.kdamond / "state", "update_schemes_stats")
        return int(read(self.scheme / "stats/sz_applied"))

    def regions(self) -> list[Region]:
        """Returns the regions of the last aggregation."""
        write(self.kdamond / "state", "update_schemes_tried_regions")
        directory = self.scheme / "tried_regions"
        found = []
        for entry in directory.iterdir():
            if entry.name.isdigit():
                found.append(
                    Region(
                        *(
                            int(read(entry / name))
                            for name in ("start", "end", "nr_accesses", "age")
                        )
                    )
                )
        return sorted(found, key=lambda region: region.start)


def make_room() -> None:
    """Stops the kernel's own access statistics, if the kernel has them."""
    if DAMON_STAT.exists():
        write(DAMON_STAT, "N")


def taken_places() -> int:
    """Returns the number of configured kdamonds, on or off."""
    return sum(
        1
        for place in DAMON.iterdir()
        if place.name.isdigit() and read(place / "contexts/nr_contexts") != "0"
    )
