#!/usr/bin/env python3
"""Writes scenarios/mtat/: MTAT's co-locations (section 5.1): one latency-critical service under the
load of figure 7 beside four best-effort programs of four threads each, 32 GB fast and 256 GB slow.
Two services together have half of their records each, so that the fast memory is for both what it
is for one.

The best-effort programs are recordings scaled up to the sizes of table 2: every recorded page grows
by the program's factor and is accessed as often, so a window of the recording stands for that many
windows.
"""

import pathlib

from toml_strings import string

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Section 5: 24 cores, eight of them for the service and four for each of the others.
CPUS = 24
THREADS = 4
# Name, recording, size of table 2 in bytes, resident bytes of the recording (traces/README.md).
BEST_EFFORT = [
    ("sssp", "graph-sssp-kron", 35_500_000_000, 356.2 * 2**20),
    ("bfs", "graph-bfs-kron", 35_200_000_000, 254.0 * 2**20),
    ("pr", "graph-pr-kron", 36_000_000_000, 253.8 * 2**20),
    ("xsbench", "xsbench", 31_700_000_000, 132.3 * 2**20),
]
SERVICES = {
    "redis": "Redis",
    "memcached": "Memcached",
    "mongodb": "A document store like MongoDB",
    "silo": "A transaction engine like Silo",
}


# Of two services, one that the agent was trained on and one that it was not; bytes of half their
# records (table 1).
TOGETHER = {"redis": 16_800_000_000, "silo": 15_200_000_000}


def scenario(services):
    """`services` have their names, and their size if it is not that of table 1."""
    lines = [
        f'name = "mtat-{"-and-".join(services)}"',
        *string(
            "summary",
            f"{' and '.join(map(SERVICES.get, services)).replace('and A', 'and a')} under the load "
            "of MTAT's figure 7, beside SSSP, BFS, PageRank and XSBench",
        ),
        "duration_s = 200",
        "",
        "[machine]",
        'preset = "dram-remote"',
        f"cpus = {CPUS}",
        'fast = "32GB"',
        'slow = "256GB"',
        'granule = "1MiB"',
    ]
    for service, size in services.items():
        lines += [
            "",
            "[[workload]]",
            f'name = "{service}"',
            # Section 5: sampling and migration use the programs' cores.
            "own_cpus = true",
            "[workload.service]",
            f'preset = "{service}"',
            'traces = "../../traces"',
            'arrivals = "ramp"',
        ]
        if size is not None:
            lines.append(f"footprint = {size}")
    for name, trace, size, recorded in BEST_EFFORT:
        lines += [
            "",
            "[[workload]]",
            f'name = "{name}"',
            f'trace = "../../traces/{trace}.twt"',
            # Programs are loaded before the experiment starts; their load phase takes minutes.
            'run_from = "run"',
            'measure_from = "run"',
            f"footprint = {size}",
            f"dilation = {round(size / recorded)}",
            f"threads = {THREADS}",
            # More loops than a run takes.
            "loops = 100",
        ]
        # `tierwise profile` makes the profiles from a scenario of this script; the scenario is then
        # written again with them.
        if (ROOT / "profiles" / f"{name}.json").exists():
            lines.append(f'profile = "../../profiles/{name}.json"')
    return "\n".join(lines) + "\n"


def main():
    directory = ROOT / "scenarios" / "mtat"
    directory.mkdir(exist_ok=True)
    for service in SERVICES:
        (directory / f"{service}.toml").write_text(scenario({service: None}))
    (directory / f"{'-and-'.join(TOGETHER)}.toml").write_text(scenario(TOGETHER))


if __name__ == "__main__":
    main()
