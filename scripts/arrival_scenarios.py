#!/usr/bin/env python3
"""Writes scenarios/arrivals/FIRST-SECOND.toml: a recorded program, and another one 30 s later.

Both run whole, with the phase in which they load their data, and each is as slow as its recording
stretched 30 times: a minute or two. So the second one takes memory that the first one holds, and
does not use it in the same way for long.
"""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
#: The constants of `tierwise` were chosen on these. They are reported on the same pairs with the
#: second program first.
CHOSEN_ON = [
    ("xsbench", "graph-pr-kron"),
    ("graph-bfs-kron", "redis-ycsb-c"),
    ("sqlite-memory", "xsbench"),
    ("redis-ycsb-c", "graph-sssp-kron"),
    ("graph-cc-urand", "graph-bc-kron"),
    ("zstd-long", "memcached-ycsb-b"),
    ("graph-pr-urand", "networkx-dijkstra"),
    ("memcached-ycsb-a", "graph-tc-kron"),
    ("redis-ycsb-d", "sqlite-memory"),
    ("graph-sssp-kron", "graph-bfs-kron"),
]
TEXT = """name = "{first}-{second}"
summary = "{second} arrives half a minute after {first}"
duration_s = 120

[machine]
preset = "dram-cxl"
fast_share = 0.25

[[workload]]
name = "{first}"
trace = "../../traces/{first}.twt"
merge = 8
dilation = 30

[[workload]]
name = "{second}"
trace = "../../traces/{second}.twt"
start_s = 30
merge = 8
dilation = 30
"""

if __name__ == "__main__":
    folder = ROOT / "scenarios/arrivals"
    folder.mkdir(exist_ok=True)
    for first, second in CHOSEN_ON + [(second, first) for first, second in CHOSEN_ON]:
        text = TEXT.format(first=first, second=second)
        (folder / f"{first}-{second}.toml").write_text(text)
