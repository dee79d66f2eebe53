#!/usr/bin/env python3
"""Writes scenarios/equilibria/: the validations of Equilibria's section V-B with its sizes, and its
stacked cases (sections V-C and V-D).

Memory is simulated in granules of 64 MiB: a program of 120 GB is 1788 units. A pass over it reads
every line of every unit once. Eight threads with three concurrent misses each read 14 GB/s from
local memory.
"""

import pathlib

from toml_strings import string

ROOT = pathlib.Path(__file__).resolve().parent.parent
DIRECTORY = ROOT / "scenarios" / "equilibria"
UNIT = 64 * 2**20
LINES = 64  # lines of a generator's page; a unit has UNIT_PAGES times as many
UNIT_PAGES = 64 * 256


def machine(fast, slow, granule="64MiB"):
    return [
        "[machine]",
        'preset = "dram-cxl-252"',
        f'fast = "{fast}GB"',
        f'slow = "{slow}GB"',
        f'granule = "{granule}"',
        "",
    ]


def units(gb):
    return round(gb * 1e9 / UNIT)


def passes(name, gb, start=0, floor="80GB", cap=None):
    lines = ["[[workload]]", f'name = "{name}"', f'floor = "{floor}"']
    if cap:
        lines.append(f'cap = "{cap}"')
    if start:
        lines.append(f"start_s = {start}")
    lines += [
        f"dilation = {UNIT_PAGES}",
        "loops = 10000",
        "threads = 8",
        "memory_level_parallelism = 3",
        "[workload.generator]",
        'pattern = "sequential"',
        # Ten passes.
        "windows = 60",
        f"footprint = {units(gb) * 4096}",
        # A sixth of a pass.
        f"accesses_per_window = {units(gb) // 6 * LINES}",
        "",
    ]
    return lines


def thrasher():
    """V-B 5 with MiB instead of GB. A scan then covers all of A every second, and a block of 10,
    which ends after two and a half seconds, is promoted completely. At full size the replacement of
    10 GB takes longer than the 5 s after which the table of promotions is cleared."""
    quiet = lambda name: [
        "[[workload]]",
        f'name = "{name}"',
        'floor = "80MiB"',
        "loops = 10000",
        "dilation = 100",
        "[workload.generator]",
        'pattern = "sequential"',
        'footprint = "50MiB"',
        "windows = 60",
        f"accesses_per_window = {50 * 256 // 6 * LINES}",
        "",
    ]
    return (
        [
            "[machine]",
            'preset = "dram-cxl-252"',
            'fast = "244MiB"',
            'slow = "164MiB"',
            "",
            "[[workload]]",
            'name = "A"',
            'cap = "10MiB"',
            "loops = 10000",
            "dilation = 10",
            "[workload.generator]",
            'pattern = "moving-hot-set"',
            'footprint = "100MiB"',
            "windows = 30",
            "hot_fraction = 0.1",
            "hot_access_share = 1.0",
            "dwell_windows = 3",
            "accesses_per_window = 20000",
            "instructions_per_access = 10000",
            "",
        ]
        + quiet("B")
        + quiet("C")
    )


def write(name, summary, duration, body):
    head = [f'name = "{name}"', *string("summary", summary), f"duration_s = {duration}", ""]
    (DIRECTORY / f"{name}.toml").write_text("\n".join(head + body).rstrip() + "\n")


def validations():
    # 240 GB for the three containers, and the free memory of the watermarks.
    small = machine(244, 164)
    write(
        "local-preferred",
        "V-B 1: 120, 40 and 40 GB fit, and all of it stays local",
        300,
        small + passes("A", 120) + passes("B", 40) + passes("C", 40),
    )
    write(
        "lower-protection",
        "V-B 2: 120, 90 and 90 GB with floors of 80 GB: all converge to 80",
        600,
        small + passes("A", 120) + passes("B", 90, 10) + passes("C", 90, 10),
    )
    write(
        "donation",
        "V-B 3: 120, 70 and 70 GB with floors of 80 GB: A has what the others do not use",
        600,
        small + passes("A", 120) + passes("B", 70, 10) + passes("C", 70, 10),
    )
    write(
        "upper-bound",
        "V-B 4: 120, 40 and 40 GB fit, but A's upper bound is 80 GB",
        300,
        small + passes("A", 120, cap="80GB") + passes("B", 40) + passes("C", 40),
    )
    write(
        "thrashing",
        "V-B 5, in MiB: A, held to 10, thrashes through 100 beside two quiet containers of 50",
        120,
        thrasher(),
    )


def service(name, gb, layout, servers, rate, slo, load, start=0, floor=None, cap=None):
    lines = ["[[workload]]", f'name = "{name}"', f"slo_ms = {slo}"]
    if floor is not None:
        lines.append(f"floor = {floor}")
    if cap is not None:
        lines.append(f"cap = {cap}")
    if start:
        lines.append(f"start_s = {start}")
    lines += [
        "[workload.service]",
        f'layout = "{layout}"',
        f'footprint = "{gb}GB"',
        f"servers = {servers}",
        f"max_per_second = {rate}",
        f"load = {load}",
        "",
    ]
    return lines


def recorded(name, trace, gb, dilation, start=0, stop=0, floor=None, cap=None, threads=16):
    lines = [
        "[[workload]]",
        f'name = "{name}"',
        f'trace = "../../traces/{trace}.twt"',
        f'footprint = "{gb}GB"',
        f"dilation = {dilation}",
        f"threads = {threads}",
        "loops = 100",
    ]
    if floor is not None:
        lines.append(f"floor = {floor}")
    if cap is not None:
        lines.append(f"cap = {cap}")
    if start:
        lines.append(f"start_s = {start}")
    if stop:
        lines.append(f"stop_s = {stop}")
    return lines + [""]


def stacked():
    # Large server: 768 GB local, 256 GB CXL (V-A). Cache: floor 70 % and cap 75 % of each
    # container's memory (V-D 1).
    large, limits = machine(768, 256), {"floor": 0.70, "cap": 0.75}
    # Granules of 4 MiB, because a copy of 64 MiB would dominate the percentiles of the response
    # times. The load is 60 % of the maximum, because a cache's threads must also execute its
    # promotions.
    fine = machine(768, 256, "4MiB")
    cache = lambda name, **more: service(
        name, 480, "key-value", 16, 800_000, 2, 0.6, **limits, **more
    )
    write("cache", "V-D 1: two caches that fill the server", 600, fine + cache("A") + cache("B"))
    write(
        "cache-burst",
        "V-D 1: a cache runs alone, and another fills its memory at once",
        600,
        fine + cache("A") + cache("B", start=100),
    )
    # CI: floor 192 GB, three quarters of the 256 GB that a job is expected to take (V-D 2). Jobs
    # are a compression and graph builds, whose memory grows while they run. The maximum of each is
    # 310 GB, so that the average is about 256. D starts when the others have taken all free memory.
    job = lambda name, trace, start=0: recorded(name, trace, 310, 2000, start, floor='"192GB"')
    write(
        "ci",
        "V-D 2: four build jobs; D starts when the others have taken the local memory",
        600,
        large
        + job("A", "zstd-long")
        + job("B", "graph-cc-kron")
        + job("C", "graph-bfs-urand")
        + job("D", "graph-pr-urand", 200),
    )
    # Small server: 256 GB local, 64 GB CXL. Web: five instances, floor 28 GB (V-D 3); B's requests
    # touch less.
    small = machine(256, 64)
    web = lambda name, rate, load: service(name, 60, "document", 4, rate, 20, load, floor='"28GB"')
    write(
        "web",
        "V-D 3: three instances of partition A (B, C, E) and two of partition B (A, D) of a web "
        "service",
        300,
        small
        + web("A", 15_000, 0.5)
        + web("B", 30_000, 0.95)
        + web("C", 30_000, 0.95)
        + web("D", 15_000, 0.5)
        + web("E", 30_000, 0.95),
    )
    # TaoBench and SparkBench: upper bound 192 GB each (V-C). A analyses in a loop while the caches
    # fill up.
    cap = '"192GB"'
    tao = lambda name, start: service(name, 250, "key-value", 4, 200_000, 2, 0.9, start, cap=cap)
    write(
        "tao-spark",
        "V-C: three caches (B, C, D) fill up beside a data analysis in a loop (A)",
        600,
        large
        + recorded("A", "graph-pr-kron", 180, 700, cap=cap)
        + tao("B", 50)
        + tao("C", 100)
        + tao("D", 150),
    )


def main():
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    validations()
    stacked()


if __name__ == "__main__":
    main()
