"""Profiles of allocation sites: which lines allocate memory that is used, and which do not.

While a profile is recorded, each line that allocates fills pages of its own (csrc/recording.h), so
that what the kernel reports of pages is known of lines. A later run reads the profile, and gives
the blocks of cold lines to the cold heap and those of hot lines to the hot one.

Short windows of time tell a page with much use from one with little, and where they are not short
enough, only the order of lines is right. So a profile is an order; how many lines are hot depends
on the memory that the later run finds free.
"""

from __future__ import annotations

import json
import os
import time
from array import array
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from .errors import Unavailable
from .heaps import HEAP_TIERS
from .native import NativeTable
from .sharing import SHARING
from .support import extension
from .topology import PAGE_BYTES, Topology

VERSION = 2
#: As little of the profile's bytes is hot where the fast tier is nearly full: a tenth has most of
#: the uses of many programs (docs/emt.md).
MIN_HOT_SHARE = 0.1

#: What a profile leaves out together, the least of its lines, has at most this part of the bytes
#: and of the uses. A program that imports much has twenty thousand lines, of which most have some
#: hundred bytes, and each costs every later run some four microseconds at its start.
LEFT_OUT = 0.01

#: The least share of the uses that the hot lines must have beyond their share of the bytes. A tenth
#: of the uses in slow memory takes a program that does little else some 5 % of its time
#: (docs/emt.md), and looking up sites costs one that allocates much a few percent.
MIN_GAIN = 0.1


class Site(NamedTuple):
    """What was recorded of a line."""

    file: str
    function: str
    line: int
    bytes: float
    """Bytes of its blocks in use, on average over the observations. Its pages have more: in a
    recording a line has some of its own for each size."""
    uses: float
    """The hotness (csrc/tracker.h) of those of its pages which tracking knew, on average, times the
    pages that its blocks fill."""


class Profile(NamedTuple):
    """The sites of a recording, and when their files were modified (nanoseconds)."""

    sites: tuple[Site, ...]
    modified: dict[str, int]
    cost: float = 0.0
    """The part of the program's CPU time that it takes to look up the line of each block, and to
    have the block in a heap. Blocks of lines without a heap cost a third of that."""

    def tiers(self, fast_bytes: float | None = None) -> dict[tuple[str, int], int]:
        """Returns the heaps of lines, of files that were not modified since: the lines with the
        most uses per byte are hot, as many as fit in `fast_bytes`, and the others cold. Without
        that size, those are hot that have more uses per byte than all have together.

        A line that does not fit is cold, and those after it may fit.

        >>> sites = [Site("a.py", "f", 1, 900.0, 1.0), Site("a.py", "g", 2, 100.0, 99.0)]
        >>> Profile(tuple(sites), {}).tiers()
        {('a.py', 2): 2, ('a.py', 1): 1}
        >>> Profile(tuple(sites), {}).tiers(fast_bytes=1000.0)
        {('a.py', 2): 2, ('a.py', 1): 2}
        """
        size = sum(site.bytes for site in self.sites)
        uses = sum(site.uses for site in self.sites)
        left = size if fast_bytes is None else max(MIN_HOT_SHARE * size, fast_bytes)
        tiers: dict[tuple[str, int], int] = {}
        now = {file: _modified(file) for file in {site.file for site in self.sites}}
        for site in sorted(self.sites, key=lambda site: -site.uses / max(site.bytes, 1.0)):
            hotter = fast_bytes is not None or site.uses * size > uses * site.bytes
            hot = hotter and site.bytes <= left
            left -= site.bytes if hot else 0.0
            if now[site.file] == self.modified.get(site.file):
                # The functions of one line (a comprehension's) have one heap, the hottest one's.
                tier = HEAP_TIERS["hot" if hot else "cold"]
                tiers.setdefault((site.file, site.line), tier)
        return tiers

    def gain(self, tiers: Mapping[tuple[str, int], int]) -> float:
        """Returns the share of the uses that hot lines have beyond their share of the bytes: what
        the heaps catch beside memory that is placed without regard to sites.

        >>> sites = [Site("a.py", "f", 1, 900.0, 1.0), Site("a.py", "g", 2, 100.0, 99.0)]
        >>> round(Profile(tuple(sites), {}).gain({("a.py", 2): 2, ("a.py", 1): 1}), 3)
        0.89
        """
        hot = [
            site for site in self.sites if tiers.get((site.file, site.line)) == HEAP_TIERS["hot"]
        ]
        uses, size = (sum(site.uses for site in self.sites), sum(site.bytes for site in self.sites))
        if uses <= 0.0 or size <= 0.0:
            return 0.0
        return sum(site.uses for site in hot) / uses - sum(site.bytes for site in hot) / size

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the profile as JSON, largest sites first."""
        sites = sorted(self.sites, key=lambda site: -site.bytes)
        text = json.dumps(
            {
                "version": VERSION,
                "cost": self.cost,
                "modified": self.modified,
                "sites": [site._asdict() for site in sites],
            },
            indent=1,
        )
        Path(path).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Profile:
        """Reads a profile.

        Raises:
            Unavailable: There is no such file, or it is not a profile.
        """
        try:
            read = json.loads(Path(path).read_text(encoding="utf-8"))
            if read["version"] != VERSION:
                raise Unavailable(f"{path} has version {read['version']}; allowed: {VERSION}")
            sites = tuple(
                Site(
                    str(one["file"]),
                    str(one["function"]),
                    int(one["line"]),
                    float(one["bytes"]),
                    float(one["uses"]),
                )
                for one in read["sites"]
            )
            times = {str(file): int(at) for file, at in read["modified"].items()}
            return cls(sites, times, float(read["cost"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise Unavailable(
                f"{path} is no profile of tierwise.emt: {type(error).__name__}: {error}"
            ) from error


def tiers_for(
    path: str | os.PathLike[str],
    topology: Topology | None,
    reserve_bytes: int,
    budget: float,
) -> dict[tuple[str, int], int] | None:
    """Returns the heaps of the lines of a profile, for the memory that is free on the fast nodes
    now, less what shall stay free, and at most what the daemon leaves this process's tenant. None:
    the profile promises too little to pay for the look at each allocation's line, because all of
    its memory fits in the fast nodes, or its lines are as hot as each other; or it makes so
    many blocks that the heaps cost more than the budget, a part of the program's CPU time.

    Raises:
        Unavailable: There is no such profile.
    """
    profile = Profile.read(path)
    if profile.cost > budget:
        return None
    if topology is None or not topology.slow:
        tiers = profile.tiers()
    else:
        free = topology.free_fast_bytes() - reserve_bytes
        room = SHARING.room_bytes()
        tiers = profile.tiers(float(free if room is None else min(free, room)))
    return tiers if profile.gain(tiers) >= MIN_GAIN else None


#: Seconds between observations. Each reads the hotness of all pages; more would take the time of
#: the windows in which the pages become known.
OBSERVED_EVERY_S = 0.25


class Recorder:
    """Adds up the uses of the pages of each site; `observe_sometimes` is a callback of
    tracking."""

    def __init__(self, table: Callable[[], NativeTable | None]) -> None:
        """`table` returns that of the tracking that is on."""
        self._table = table
        self._native = extension()
        # By number: its bytes and the number of observations; the hotness of those of its pages
        # that tracking knew, and their number.
        self._bytes: dict[int, tuple[int, int]] = {}
        self._hotness: dict[int, tuple[float, int]] = {}
        self._next = 0.0

    def observe_sometimes(self, _: object) -> None:
        """Observes if it is time to."""
        if time.monotonic() >= self._next:
            self.observe()
            self._next = time.monotonic() + OBSERVED_EVERY_S

    def observe(self) -> None:
        """Takes the pages and their hotness of this moment."""
        table = self._table()
        if table is None:
            return
        for site, used in enumerate(array("Q", self._native.site_bytes())):
            if used:
                before, times = self._bytes.get(site, (0, 0))
                self._bytes[site] = before + used, times + 1
        addresses, hotness, _tiers = table.pages()
        for site, hot in zip(array("I", self._native.sites_of(addresses)), hotness, strict=True):
            if site:
                total, pages = self._hotness.get(site, (0.0, 0))
                self._hotness[site] = total + hot, pages + 1

    def profile(self, tracking_s: float) -> Profile:
        """Returns what was recorded of the sites of which tracking knew a page, and that matter;
        tracking took so much CPU time."""
        found = []
        for number, (file, function, line) in enumerate(self._native.sites(), start=1):
            if number in self._hotness and number in self._bytes:
                total, times = self._bytes[number]
                hotness, known = self._hotness[number]
                uses = hotness / known * total / times / PAGE_BYTES
                found.append(Site(file, function, line, total / times, uses))
        sites = matter(found)
        return Profile(sites, _times_of(site.file for site in sites), self._cost(tracking_s))

    def _cost(self, tracking_s: float) -> float:
        """Returns the part of the program's own CPU time that its blocks cost."""
        blocks, each_ns = self._native.hooks_cost()
        cost_s = blocks * each_ns / 1e9
        # The recording's own hooks are in the program's time, but for a clock that is too coarse.
        return float(cost_s / max(cost_s, time.process_time() - tracking_s - cost_s, 1e-9))


def matter(sites: Iterable[Site]) -> tuple[Site, ...]:
    """Returns the sites but the least ones, which together have no more than LEFT_OUT of the bytes,
    and of the uses."""
    found = tuple(sites)
    size = sum(site.bytes for site in found) or 1.0
    uses = sum(site.uses for site in found) or 1.0
    least = sorted(found, key=lambda site: max(site.bytes / size, site.uses / uses))
    left_bytes, left_uses = LEFT_OUT * size, LEFT_OUT * uses
    for number, site in enumerate(least):
        left_bytes -= site.bytes
        left_uses -= site.uses
        if left_bytes < 0.0 or left_uses < 0.0:
            return tuple(least[number:])
    return ()


def _times_of(files: Iterable[str]) -> dict[str, int]:
    times = {file: _modified(file) for file in set(files)}
    return {file: at for file, at in sorted(times.items()) if at is not None}


def _modified(file: str) -> int | None:
    """When a file was modified; None of code that has no file."""
    try:
        return os.stat(file).st_mtime_ns
    except OSError:
        return None
