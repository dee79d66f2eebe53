"""In the emulator: `program.py WORKLOAD STEPS PREFIX` builds the workload, counts two windows of
STEPS steps, and writes what analyse.py reads to PREFIX.*.

The first window is the history that a tiering mechanism could have seen, the second is scored.
"""

from __future__ import annotations

import gc
import json
import os
import re
import struct
import sys
import time
from pathlib import Path

# The directory of the extension that truth.py builds, and the workloads'.
sys.path[:0] = [os.environ["TRUTH_BUILD"], str(Path(__file__).parent.parent)]

import truth_objects

# From here on every block has a site; what the interpreter allocated before has none.
truth_objects.install()

from truth.ranges import outside

PAGE = 4096
PRESENT = 1 << 63


def all_types() -> list[type]:
    """Returns every class, the built-in ones included."""
    found: dict[type, None] = {}
    to_see: list[type] = [object, type]
    while to_see:
        one = to_see.pop()
        if one not in found:
            found[one] = None
            to_see.extend(type.__subclasses__(one))
    return list(found)


def private_pages(own: list[tuple[int, int]]) -> list[int]:
    """Returns the addresses of the program's present pages in private writable mappings."""
    pages: list[int] = []
    with open("/proc/self/maps") as maps, open("/proc/self/pagemap", "rb") as pagemap:
        for line in maps:
            match = re.match(r"([0-9a-f]+)-([0-9a-f]+) .w.p", line)
            if match is None:
                continue
            start, end = int(match[1], 16), int(match[2], 16)
            if any(start < high and low < end for low, high in own):
                # The kernel joins neighbouring mappings; the tables are far larger than any part
                # of the program, so each keeps its own bounds.
                parts = outside(start, end, own)
            else:
                parts = [(start, end)]
            for low, high in parts:
                pagemap.seek(low // PAGE * 8)
                words = pagemap.read((high - low) // PAGE * 8)
                entries = struct.unpack(f"{len(words) // 8}Q", words)
                pages.extend(low + i * PAGE for i, entry in enumerate(entries) if entry & PRESENT)
    return pages


def objects() -> list[object]:
    """Returns all objects that the collector tracks, and the dicts and lists below them."""
    found = gc.get_objects()
    known = set(map(id, found))
    for one in list(found):
        # A dict or list of atoms may be untracked.
        for inner in gc.get_referents(one):
            if type(inner) in (dict, list, set) and id(inner) not in known:
                known.add(id(inner))
                found.append(inner)
    return found


def main(workload: str, steps: int, prefix: str) -> None:
    """Runs one workload."""
    from workloads import WORKLOADS

    began = time.monotonic()
    step = WORKLOADS[workload]()
    step()
    built_s = time.monotonic() - began
    types = all_types()
    truth_objects.know_types(types)
    for generation in range(3):
        truth_objects.set_generation(gc.get_objects(generation=generation), generation)
    truth_objects.settle_generations()
    for window in range(2):
        truth_objects.start_window(window)
        for _ in range(steps):
            step()
    accesses, misses = truth_objects.stop()
    sites, contexts, kinds, own = truth_objects.names()
    pages = private_pages(own)
    truth_objects.name_parts(objects())
    truth_objects.dump(prefix)
    Path(prefix + ".present").write_bytes(struct.pack(f"{len(pages)}Q", *pages))
    names = {
        "accesses": accesses,
        "misses": misses,
        "built_s": built_s,
        "total_s": time.monotonic() - began,
        "sites": {number: f"{file}:{line} {name}" for number, file, line, name in sites},
        "contexts": dict(contexts),
        "types": {number: f"{kind.__module__}.{kind.__qualname__}" for number, kind in kinds},
    }
    Path(prefix + ".names").write_text(json.dumps(names), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
