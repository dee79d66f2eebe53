#!/usr/bin/env python3
"""Writes scenarios/multi-clock/: YCSB's workloads on key-value stores that no scan covers in one
period, for figures of MULTI-CLOCK's sections V-C to V-E.

- `store-*`: 48 GiB in pages of 2 MiB, a third of it in DRAM. MULTI-CLOCK scans 1,024 pages of each
  list in a second, so a pass over the slow tier takes 16 s. The kernel of the paper's CentOS has
  transparent huge pages on.
- `base-pages`: 2 GiB in pages of 4 KiB. A pass over the slow tier takes six minutes.

One thread runs on one CPU, so that the kernel's threads take its time, as on the paper's machine,
where YCSB and Memcached occupy all CPUs.
"""

import pathlib

from toml_strings import string

DIRECTORY = pathlib.Path(__file__).resolve().parent.parent / "scenarios" / "multi-clock"


def write(name, summary, workload, dilation, footprint, order, accesses, windows):
    lines = [
        f'name = "{name}"',
        *string("summary", summary),
        "",
        "[machine]",
        'preset = "dram-optane"',
        "fast_share = 0.3333",
        "cpus = 1",
        "",
        "[[workload]]",
        f'name = "{name}"',
        f"dilation = {dilation}",
        'measure_from = "run"',
        "[workload.generator]",
        f'pattern = "{workload}"',
        f'footprint = "{footprint}"',
        *([f"order = {order}"] if order else []),
        f"accesses_per_window = {accesses}",
        f"windows = {windows}",
    ]
    (DIRECTORY / f"{name}.toml").write_text("\n".join(lines) + "\n")


def main():
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    for letter in "abcfwd":
        summary = f"YCSB {letter.upper()} on 48 GiB in pages of 2 MiB, a third of it in DRAM"
        write(f"store-{letter}", summary, f"ycsb-{letter}", 5, "48GiB", 9, 2_000_000, 100)
    summary = "YCSB A on 2 GiB in pages of 4 KiB, a third of it in DRAM"
    write("base-pages", summary, "ycsb-a", 10, "2GiB", 0, 2_000_000, 25)


if __name__ == "__main__":
    main()
