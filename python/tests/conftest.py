"""Fixture: a scenario that is small enough for many runs."""

from pathlib import Path

import pytest

SCENARIO = """\
name = "small"
summary = "A key-value service beside a program with a skewed working set"
duration_s = 20

[machine]
preset = "dram-cxl"
fast = "64MiB"
slow = "512MiB"
granule = "64KiB"

[[workload]]
name = "store"
slo_ms = 5
[workload.service]
footprint = "96MiB"
max_per_second = 20000
load = 0.5

[[workload]]
name = "other"
loops = 100000
footprint = "64MiB"
[workload.generator]
pattern = "zipf"
footprint = "4MiB"
windows = 10
"""


@pytest.fixture(scope="session")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scenario's file."""
    path = tmp_path_factory.mktemp("scenario") / "small.toml"
    path.write_text(SCENARIO)
    return path
