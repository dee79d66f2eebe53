"""Chooses the threshold T of adaptive lazy demotion from profiles (EMT, section 6.2): `profile_t.py
[WORKLOAD...]`.

Every workload of table 3, at a twentieth of its size in workloads.py, runs in the lab's timed guest
with half of its resident set fast, once with lazy and once with eager demotion. Its eagerness is
recorded. It needs `make lab` and python/emt/lab.sh first, a network for the packages of the guest's
Python, and half an hour. It prints a table in Markdown, and T.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

import timed_guest
from emt_reproduction.policy.choose_t import Profile, choose_t
from workloads import WORKLOADS

#: Debian 13's Python, which is the guest's.
GUEST_PYTHON = "3.13"
PACKAGES = ("networkx", "sqlalchemy", "typing_extensions")


def install(directory: Path) -> None:
    """Installs the workloads' packages into a directory."""
    options = [
        "--quiet",
        "--target",
        str(directory),
        "--python-version",
        GUEST_PYTHON,
        "--only-binary=:all:",
        "--no-deps",
    ]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, *PACKAGES], check=True)


def profiles(runs: Sequence[dict[str, Any]]) -> list[Profile]:
    """Returns a profile per workload, with its lazy and its eager run, and the eagerness of
    both."""
    by_way = {(run["workload"], run["demotion"]): run for run in runs}
    found = []
    for name in dict.fromkeys(run["workload"] for run in runs):
        lazy, eager = by_way[name, "lazy"], by_way[name, "eager"]
        found.append(
            Profile(
                name, lazy["seconds"], eager["seconds"], (*lazy["eagerness"], *eager["eagerness"])
            )
        )
    return found


def table(found: Sequence[Profile], t: float) -> str:
    """Formats the run times, and the time of each workload with T."""
    lines = [
        "| workload | lazy | eager | eagerness: lowest, middle, highest | with T |",
        "|---|---|---|---|---|",
    ]
    for profile in found:
        values = sorted(profile.eagerness)
        middle = values[len(values) // 2]
        lines.append(
            f"| {profile.name} | {profile.lazy_s:.2f} s | {profile.eager_s:.2f} s | "
            f"{values[0]:.3f}, {middle:.3f}, {values[-1]:.3f} | {profile.seconds(t):.2f} s |"
        )
    return "\n".join(lines)


def main(workloads: Sequence[str]) -> None:
    """Prints the table and T."""
    with tempfile.TemporaryDirectory() as scratch:
        packages = Path(scratch) / "packages"
        install(packages)
        files = {
            "packages": packages,
            "workloads.py": BENCH / "workloads.py",
            "profiles": Path(__file__).resolve().parent / "lab",
        }
        found = profiles(timed_guest.run("profiles.profiles", workloads, files))
    t = choose_t(found)
    print(f"{table(found, t)}\n\nT = {t:.4f}")


if __name__ == "__main__":
    main(sys.argv[1:] or tuple(WORKLOADS))
