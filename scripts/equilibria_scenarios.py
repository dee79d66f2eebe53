#!/usr/bin/env python3
"""Writes scenarios/equilibria/: the validations of Equilibria's section V-B with its sizes, and its
stacked cases (sections V-C and V-D).

Memory is simulated in granules, mostly of 64 MiB: a program of 120 GB is 1788 units. A pass over it
reads every line of every unit once. Eight threads with three concurrent misses each read 14 GB/s
from local memory.
"""

import pathlib

from toml_strings import string

ROOT = pathlib.Path(__file__).resolve().parent.parent
DIRECTORY = ROOT / "scenarios" / "equilibria"
UNIT = 64 * 2**20
LINES = 64  # lines of a generator's page; a unit has UNIT_PAGES times as many
UNIT_PAGES = 64 * 256


def machine(fast, slow, granule="64MiB", cpus=None):
    return [
        "[machine]",
        'preset = "dram-cxl-252"',
        f'fast = "{fast}GB"',
        f'slow = "{slow}GB"',
        f'granule = "{granule}"',
        *([f"cpus = {cpus}"] if cpus else []),
        "",
    ]


def passes(name, gb, start=0, floor="80GB", cap=None, unit=UNIT, blocks=6, windows=None):
    """A program that reads its memory from end to end, in as many blocks a pass."""
    units = round(gb * 1e9 / unit)
    lines = ["[[workload]]", f'name = "{name}"']
    if floor:
        lines.append(f'floor = "{floor}"')
    if cap:
        lines.append(f'cap = "{cap}"')
    if start:
        lines.append(f"start_s = {start}")
    lines += [
        f"dilation = {unit // 4096}",
        "loops = 10000",
        "threads = 8",
        "memory_level_parallelism = 3",
        "[workload.generator]",
        'pattern = "sequential"',
        # Ten passes, unless they do not fit into memory.
        f"windows = {windows or 10 * blocks}",
        f"footprint = {units * 4096}",
        # A block.
        f"accesses_per_window = {units // blocks * LINES}",
        "",
    ]
    return lines


def thrasher():
    """V-B 5 as written: A has a floor of 80 GB like all, a cap of 10 GB and 100 GB of memory. A
    pass over it takes some 17 s, so that no promoted page is accessed again before it is demoted.
    Each container has 8 threads and all CPUs are in use, so that kswapd's time is taken from all.
    Units of 4 MiB: one demotion is a thousandth of A's fast memory."""
    fine = 4 * 2**20
    return (
        machine(244, 164, "4MiB", cpus=24)
        + passes("A", 100, cap="10GB", unit=fine, blocks=60)
        + passes("B", 50, unit=fine, blocks=60)
        + passes("C", 50, unit=fine, blocks=60)
    )


def noisy():
    """Section III's last observation: A's 310 GB are more than all local memory, and nothing limits
    it. B and C would fit and start after it has filled what there is."""
    fine = 4 * 2**20
    quiet = {"floor": None, "unit": fine, "blocks": 48}
    return (
        machine(244, 164, "4MiB", cpus=24)
        + passes("A", 310, floor=None, unit=fine, blocks=180, windows=540)
        + passes("B", 40, 20, **quiet)
        + passes("C", 40, 20, **quiet)
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
        "V-B 5: A, held to 10 GB, thrashes through 100 beside two quiet containers of 50",
        120,
        thrasher(),
    )
    write(
        "noisy",
        "III: A, without limits, thrashes through 310 GB beside two containers of 40",
        180,
        noisy(),
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


def hot_footprint(name, gb, hot, start, instructions):
    """A program that makes 19 of 20 accesses to a part of its memory that stays the same. It misses
    the caches once in some `instructions`, and has 16 threads."""
    units = round(gb * 1e9 / UNIT)
    lines = ["[[workload]]", f'name = "{name}"', f'floor = "{hot}GB"']
    if start:
        lines.append(f"start_s = {start}")
    return lines + [
        f"dilation = {UNIT_PAGES}",
        "loops = 1000",
        "threads = 16",
        'measure_from = "run"',
        "[workload.generator]",
        'pattern = "moving-hot-set"',
        f"footprint = {units * 4096}",
        f"hot_fraction = {hot / gb:.3f}",
        "hot_access_share = 0.95",
        "windows = 20",
        "dwell_windows = 20",
        "accesses_per_window = 20000",
        f"instructions_per_access = {instructions}",
        "",
    ]


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
    # 310 GB (345 of B and C), so that the average is about 256. D starts when the others have taken
    # nearly all local memory, and allocates five times as fast as they do.
    job = lambda name, trace, gb=310, start=0, dilation=2000: recorded(
        name, trace, gb, dilation, start, floor='"192GB"'
    )
    write(
        "ci",
        "V-D 2: four build jobs; D starts when the others have taken the local memory",
        400,
        large
        + job("A", "zstd-long")
        + job("B", "graph-cc-kron", 345)
        + job("C", "graph-bfs-urand", 345)
        + job("D", "graph-pr-urand", start=260, dilation=400),
    )
    # Small server: 256 GB local, 64 GB CXL. Web: five instances with a hot footprint of 28 GB each,
    # which is their floor (V-D 3). Those of partition B, A and D, access their memory a third as
    # often. The instances start half a minute apart, and the last finds no free memory.
    small = machine(256, 64)
    web = lambda name, start, instructions: hot_footprint(name, 60, 28, start, instructions)
    write(
        "web",
        "V-D 3: three instances of partition A (B, C, E) and two of partition B (A, D) of a web "
        "service",
        600,
        small
        + web("A", 0, 3000)
        + web("B", 30, 1000)
        + web("C", 60, 1000)
        + web("D", 90, 3000)
        + web("E", 120, 1000),
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
