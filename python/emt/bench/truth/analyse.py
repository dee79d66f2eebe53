"""Scores what could be caught with a part of memory fast, from two runs' true counts.

Terms:

- A unit is what a mechanism can place by itself. For a page mover it is a page. For an object mover
  it is a block of the allocator that is smaller than a page, and what is left of each page: a part
  of a large block, of another allocator's memory, or what the allocator itself uses.
- The weight of a unit is its bytes times the part of the window in which it was alive. So a million
  temporary objects that follow each other at one place weigh as much as one.
- The uses of a unit are its accesses that miss the modelled cache.
- The catch of a ranking is the share of uses on its first units, as many as weigh a share of all
  present private pages.

A ranking by a property (allocation site, type, ...) takes each value's uses by byte from one run,
and is scored on the other: it never sees the run that it ranks. A value that the first run did not
have ranks at its mean. "History" ranks by the first window of the run whose second window is
scored; objects made since then rank at the mean of those that were made in the first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

SHARES = (0.10, 0.25, 0.50)
PAGE = 4096
WINDOWS = 2
COUNTS = [("accesses", "u4"), ("misses", "u4")]
# The layouts of objects.c.
RECORD = np.dtype(
    [("address", "u8"), ("size", "u8"), ("born_bytes", "u8"), ("since", "u8", WINDOWS)]
    + [("lived", "u8", WINDOWS), ("counts", COUNTS, WINDOWS)]
    + [(name, "u4") for name in ("context", "type", "generation", "next_free")]
)
FREED_KEYS = "used context type generation size_class age window number".split()
FREED = np.dtype(
    [(name, "u4") for name in FREED_KEYS]
    + [(name, "u8") for name in ("byte_clock", "accesses", "misses")]
)
CHUNK = np.dtype(
    [("base", "u8"), ("pages", COUNTS, (WINDOWS, 512)), ("freed", COUNTS, (WINDOWS, 512))]
)
LARGE = 4096
#: enum part of objects.c.
PARTS = {1 << 20: "table of a dict", (1 << 20) + 1: "items of a list", (1 << 20) + 2: "set table"}
GENERATIONS = ("0", "1", "2", "not tracked", "later")
SINGLE = ("site", "context", "type", "size", "generation", "age")
#: Properties, and joins of them. "born" has what is known at the allocation, "all" also what is
#: known when the window starts.
PROPERTIES = (*SINGLE, "born", "all")

Array = np.ndarray[Any, Any]


def size_class(size: Array) -> Array:
    """Returns pymalloc's class up to 512 bytes, and 32 plus the bits beyond (objects.c)."""
    large = 33 + np.floor(np.log2(np.maximum(size, 1).astype(float)))
    return np.where(size <= 512, (size + 15) // 16, large).astype(np.int64)


def age_class(born: Array, start: int) -> Array:
    """Returns 0 for a block of this window, else 1 plus the bits of the KiB allocated since."""
    kib = np.maximum(start - born.astype(np.int64), 0) >> 10
    bits = np.floor(np.log2(np.maximum(kib, 1).astype(float))) + 2
    return np.where(born >= start, 0, np.where(kib == 0, 1, bits)).astype(np.int64)


class Codes:
    """Numbers names, the same for both runs."""

    def __init__(self) -> None:
        self.known: dict[object, int] = {}

    def of(self, names: Sequence[object]) -> Array:
        """Returns the number of each name."""
        return np.array([self.known.setdefault(name, len(self.known)) for name in names], "i8")

    def of_rows(self, columns: Sequence[Array]) -> Array:
        """Returns a number for each row of some columns of numbers."""
        rows, inverse = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
        return self.of([tuple(row) for row in rows.tolist()])[inverse.reshape(-1)]


class Run:
    """The units of one run, in window `window`, as arrays of one length."""

    def __init__(self, prefix: Path, codes: dict[str, Codes], metric: str, window: int) -> None:
        self.metric, self.window = metric, window
        self.names = json.loads(Path(f"{prefix}.names").read_text(encoding="utf-8"))
        records = np.fromfile(f"{prefix}.records", RECORD)
        freed = np.fromfile(f"{prefix}.freed", FREED)
        present = np.unique(np.fromfile(f"{prefix}.present", "u8"))
        chunks = np.fromfile(f"{prefix}.pages", CHUNK)
        self.codes = codes
        self.bytes = len(present) * PAGE
        self.clock = int(records["lived"][:, window].max())
        old = records["lived"][:, 0] > 0
        self.window_born = int(records["born_bytes"][old].max()) + 1 if window else 0
        small, large = records[records["size"] < LARGE], records[records["size"] >= LARGE]
        pages = Pages(present, chunks, small, metric)
        self.page_uses = pages.uses
        self.lost = pages.lost
        freed_now = freed[freed["window"] == window]
        freed_before = freed[freed["window"] == 0]
        rest = self._keys_of_rest(present, large)
        parts = [self._keys_of_records(small), self._keys_of_freed(freed_now), rest]
        self.keys = {name: np.concatenate([part[name] for part in parts]) for name in SINGLE}
        for name, joined in (
            ("born", ("context", "type", "size")),
            ("all", ("context", "type", "size", "generation", "age")),
        ):
            self.keys[name] = codes[name].of_rows([self.keys[one] for one in joined])
        lived = small["lived"][:, window] / self.clock
        alive = (small["size"] + 15) // 16 * 16 * lived
        gone = freed_now["byte_clock"] / self.clock
        # Freed blocks were in what is room at the end; their bytes count once.
        room = pages.room * max(1 - gone.sum() / max(pages.room.sum(), 1), 0)
        # A page without room left holds uses of blocks that were there before.
        room = np.maximum(room, 16)
        self.weight = np.concatenate([alive, gone, room])
        self.uses = np.concatenate(
            [small["counts"][metric][:, window], freed_now[metric], pages.rest[window]]
        ).astype(float)
        # The density of what the first window made, for what has no history.
        fresh = freed_before[metric].sum() / max(freed_before["byte_clock"].sum(), 1) * self.clock
        before = small["counts"][metric][:, 0] / ((small["size"] + 15) // 16 * 16)
        self.history = np.concatenate(
            [
                np.where(small["lived"][:, 0] > 0, before, fresh),
                np.full(len(freed_now), fresh),
                pages.rest[0] / room,
            ]
        )
        self.page_history = pages.before
        self.small, self.small_count = small, len(small)
        self.rest_from = len(small) + len(freed_now)

    def _type_names(self, numbers: Array) -> Array:
        known = self.names["types"]
        unique, inverse = np.unique(numbers, return_inverse=True)
        found = [PARTS.get(int(n)) or known.get(str(n), "no object") for n in unique]
        return self.codes["type"].of(found)[inverse]

    def _places(self, numbers: Array) -> dict[str, Array]:
        unique, inverse = np.unique(numbers, return_inverse=True)
        sites, contexts = self.names["sites"], self.names["contexts"]
        chains = [
            tuple(sites[str(site)] for site in contexts[str(n)] if site) or ("no frame",)
            for n in unique
        ]
        return {
            "site": self.codes["site"].of([chain[0] for chain in chains])[inverse],
            "context": self.codes["context"].of(chains)[inverse],
        }

    def _keys_of_records(self, records: Array) -> dict[str, Array]:
        return self._places(records["context"]) | {
            "type": self._type_names(records["type"]),
            "size": size_class(records["size"]),
            "generation": records["generation"].astype("i8"),
            "age": age_class(records["born_bytes"], self.window_born),
        }

    def _keys_of_freed(self, freed: Array) -> dict[str, Array]:
        return self._places(freed["context"]) | {
            "type": self._type_names(freed["type"]),
            "size": freed["size_class"].astype("i8"),
            "generation": freed["generation"].astype("i8"),
            "age": freed["age"].astype("i8"),
        }

    def _keys_of_rest(self, present: Array, large: Array) -> dict[str, Array]:
        """A page's rest has the properties of the large block that covers it, or none."""
        large = np.sort(large, order="address")
        middle = present + PAGE // 2
        keys = self._keys_of_records(large)
        if len(large) == 0:
            return {name: np.full(len(present), -1) for name in SINGLE}
        at = np.maximum(np.searchsorted(large["address"], middle, side="right") - 1, 0)
        inside = (large["address"][at] <= middle) & (
            middle < large["address"][at] + large["size"][at]
        )
        return {name: np.where(inside, keys[name][at], -1) for name in SINGLE}


class Pages:
    """Uses of the present pages, and what is left of them without small blocks."""

    def __init__(self, present: Array, chunks: Array, small: Array, metric: str) -> None:
        addresses = (chunks["base"][:, None] + np.arange(512, dtype="u8") * PAGE).reshape(-1)
        order = np.argsort(addresses)
        at = np.searchsorted(addresses[order], present)
        known = (at < len(addresses)) & (
            addresses[order][np.minimum(at, len(addresses) - 1)] == present
        )
        all_uses, all_freed = (
            [chunks[field][metric][:, window].reshape(-1)[order] for window in range(WINDOWS)]
            for field in ("pages", "freed")
        )

        def of_present(values: Array) -> Array:
            return np.where(known, values[np.minimum(at, len(addresses) - 1)], 0).astype(float)

        self.before, self.uses = (of_present(values) for values in all_uses)
        # Uses of read-only files, and of memory that the program has returned since then.
        self.lost = 1 - self.uses.sum() / max(all_uses[1].sum(), 1)
        page = np.searchsorted(present, small["address"] // PAGE * PAGE)
        page = np.minimum(page, len(present) - 1)
        count = len(present)
        self.room = np.maximum(
            PAGE - np.bincount(page, (small["size"] + 15) // 16 * 16, minlength=count), 0
        )
        self.rest = [
            np.maximum(
                of_present(all_uses[window])
                - of_present(all_freed[window])
                - np.bincount(page, small["counts"][metric][:, window], minlength=count),
                0,
            )
            for window in range(WINDOWS)
        ]


def catch(rank: Array, weight: Array, uses: Array, capacity: float) -> float:
    """Returns the share of uses on the units of highest rank within the capacity. The last unit
    counts with its part.

    >>> catch(np.array([2.0, 1.0]), np.array([10.0, 10.0]), np.array([3.0, 1.0]), 15.0)
    0.875
    """
    order = np.argsort(-rank, kind="stable")
    end = np.cumsum(weight[order])
    inside = np.clip((capacity - (end - weight[order])) / np.maximum(weight[order], 1e-9), 0, 1)
    return float((uses[order] * inside).sum() / max(uses.sum(), 1))


def by_property(learnt: Run, scored: Run, name: str, capacity: float) -> float:
    """Returns the catch of a ranking by a property's density in the other run."""
    count = 2 + int(max(learnt.keys[name].max(), scored.keys[name].max()))
    keys = scored.keys[name] + 1
    seen = np.bincount(learnt.keys[name] + 1, learnt.weight, minlength=count)
    used = np.bincount(learnt.keys[name] + 1, learnt.uses, minlength=count)
    mean = learnt.uses.sum() / learnt.weight.sum()
    density = np.where(seen > 0, used / np.maximum(seen, 1e-9), mean)
    weight = np.bincount(keys, scored.weight, minlength=count)
    uses = np.bincount(keys, scored.uses, minlength=count)
    return catch(density, weight, uses, capacity)


def grouped(scored: Run, name: str, capacity: float) -> float:
    """Returns the best catch by page if each value of a property had pages of its own, filled in
    order of allocation. Freed blocks and the rests of pages stay units of their own."""
    n = scored.small_count
    keys, size = scored.keys[name][:n], scored.weight[:n]
    order = np.lexsort((scored.small["born_bytes"], keys))
    page = (np.cumsum(size[order]) // PAGE).astype(np.int64)
    weight = np.bincount(page, size[order])
    uses = np.bincount(page, scored.uses[:n][order])
    weight = np.concatenate([weight, scored.weight[n:]])
    uses = np.concatenate([uses, scored.uses[n:]])
    return catch(uses / np.maximum(weight, 1e-9), weight, uses, capacity)


def figures(learnt_prefix: Path, scored_prefix: Path) -> dict[str, Any]:
    """Returns all figures of a workload."""
    codes = {name: Codes() for name in ("site", "context", "type", "born", "all")}
    learnt = Run(learnt_prefix, codes, "misses", 1)
    scored = Run(scored_prefix, codes, "misses", 1)
    whole = np.full(len(scored.page_uses), float(PAGE))
    rankings: dict[str, Callable[[float], float]] = {
        "page best": lambda room: catch(scored.page_uses, whole, scored.page_uses, room),
        "page history": lambda room: catch(scored.page_history, whole, scored.page_uses, room),
        "object best": lambda room: catch(
            scored.uses / np.maximum(scored.weight, 1e-9), scored.weight, scored.uses, room
        ),
        "object history": lambda room: catch(scored.history, scored.weight, scored.uses, room),
        **{name: partial(by_property, learnt, scored, name) for name in PROPERTIES},
        **{
            f"pages by {name}": partial(grouped, scored, name)
            for name in ("site", "context", "born")
        },
    }
    small_uses = scored.uses[: scored.rest_from].sum()
    return {
        "pages": len(whole),
        "blocks": scored.small_count,
        "accesses": scored.names["accesses"],
        "misses": scored.names["misses"],
        "small_blocks_bytes": float(scored.weight[: scored.rest_from].sum() / scored.bytes),
        "small_blocks_uses": float(small_uses / max(scored.uses.sum(), 1)),
        "freed_uses": float(
            scored.uses[scored.small_count : scored.rest_from].sum() / max(scored.uses.sum(), 1)
        ),
        "lost": float(scored.lost),
        "caught": {
            f"{share:.0%}": {
                name: round(ranking(share * scored.bytes), 3) for name, ranking in rankings.items()
            }
            for share in SHARES
        },
    }
