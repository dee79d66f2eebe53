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

VERSION = 1
#: As little of the profile's bytes is hot where the fast tier is nearly full: a tenth has most of
#: the uses of many programs (docs/emt.md).
MIN_HOT_SHARE = 0.1

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
    """Bytes of its pages, on average over the observations."""
    uses: float
    """The sum of its pages' hotness (csrc/tracker.h): their number times that of those which
    tracking knew, on average."""


class Profile(NamedTuple):
    """The sites of a recording, and when their files were modified (nanoseconds)."""

    sites: tuple[Site, ...]
    modified: dict[str, int]

    def tiers(self, fast_bytes: float | None = None) -> dict[tuple[str, int], int]:
        """Returns the heaps of lines, of files that were not modified since: the lines with the
        most uses per byte are hot, as many as fit in `fast_bytes`, and the others cold. Without
        that size, those are hot that have more uses per byte than all have together.

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
        for site in sorted(self.sites, key=lambda site: -site.uses / max(site.bytes, 1.0)):
            left -= site.bytes
            hot = left >= 0 and (fast_bytes is not None or site.uses * size > uses * site.bytes)
            if _modified(site.file) == self.modified.get(site.file):
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
            return cls(sites, {str(file): int(at) for file, at in read["modified"].items()})
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise Unavailable(
                f"{path} is no profile of tierwise.emt: {type(error).__name__}: {error}"
            ) from error


def tiers_for(
    path: str | os.PathLike[str], topology: Topology | None, reserve_bytes: int
) -> dict[tuple[str, int], int] | None:
    """Returns the heaps of the lines of a profile, for the memory that is free on the fast nodes
    now, less what shall stay free, and at most what the daemon leaves this process's tenant. None:
    the profile promises too little to pay for the look at each allocation's line, because all of
    its memory fits in the fast nodes, or its lines are as hot as each other.

    Raises:
        Unavailable: There is no such profile.
    """
    profile = Profile.read(path)
    if topology is None or not topology.slow:
        tiers = profile.tiers()
    else:
        free = topology.free_fast_bytes() - reserve_bytes
        room = SHARING.room_bytes()
        tiers = profile.tiers(float(free if room is None else min(free, room)))
    return tiers if profile.gain(tiers) >= MIN_GAIN else None


class Recorder:
    """Adds up the uses of the pages of each site; `observe` is a callback of tracking."""

    def __init__(self, table: Callable[[], NativeTable | None]) -> None:
        """`table` returns that of the tracking that is on."""
        self._table = table
        self._native = extension()
        # By number: its pages and the number of observations; the hotness of those of its pages
        # that tracking knew, and their number.
        self._pages: dict[int, tuple[int, int]] = {}
        self._hotness: dict[int, tuple[float, int]] = {}

    def observe(self, _: object = None) -> None:
        """Takes the pages and their hotness of this moment."""
        table = self._table()
        if table is None:
            return
        for site, pages in enumerate(array("I", self._native.site_pages())):
            if pages:
                before, times = self._pages.get(site, (0, 0))
                self._pages[site] = before + pages, times + 1
        addresses, hotness, _tiers = table.pages()
        for site, hot in zip(array("I", self._native.sites_of(addresses)), hotness, strict=True):
            if site:
                total, pages = self._hotness.get(site, (0.0, 0))
                self._hotness[site] = total + hot, pages + 1

    def profile(self) -> Profile:
        """Returns what was recorded of the sites of which tracking knew a page."""
        sites = []
        for number, (file, function, line) in enumerate(self._native.sites(), start=1):
            if number in self._hotness and number in self._pages:
                pages, times = self._pages[number]
                hotness, known = self._hotness[number]
                uses = hotness / known * pages / times
                sites.append(Site(file, function, line, pages * PAGE_BYTES / times, uses))
        return Profile(tuple(sites), _times_of(site.file for site in sites))


def _times_of(files: Iterable[str]) -> dict[str, int]:
    times = {file: _modified(file) for file in set(files)}
    return {file: at for file, at in sorted(times.items()) if at is not None}


def _modified(file: str) -> int | None:
    """When a file was modified; None of code that has no file."""
    try:
        return os.stat(file).st_mtime_ns
    except OSError:
        return None
