"""Tests of sweeps on executors."""

import json
import os
import shutil
import signal
import subprocess
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import submitit
import tierwise
from distributed import Client, LocalCluster
from tierwise import sweep

PLAN = """\
scenarios = ["small.toml"]
recipes = ["static", "multi-clock"]
seeds = [1, 2]
[grid]
scenario.duration_s = [2, 3]
"""

#: The command of the same sources, which scripts/test-python.sh builds.
COMMAND = Path(__file__).parents[2] / "target/debug/tierwise"


@pytest.fixture
def plan(scenario: Path, tmp_path: Path) -> Path:
    """A plan of eight units."""
    shutil.copy(scenario, tmp_path / "small.toml")
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    return path


class Here:
    """An executor that runs units in this thread, and counts them."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.ran = 0
        self.fail_at = fail_at

    def submit(self, function: Any, unit: str) -> "Future[str]":
        """Runs a unit at once."""
        if self.ran == self.fail_at:
            raise RuntimeError("the cluster is gone")
        self.ran += 1
        future: Future[str] = Future()
        future.set_result(function(unit))
        return future


def test_processes_run_a_plan_once(plan: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    with ProcessPoolExecutor(2) as executor:
        first = sweep.run(
            plan, executor, out=tmp_path / "out", progress=lambda *of: told.append(of)
        )
        again = sweep.run(plan, executor, out=tmp_path / "out")
    assert (first.ran, first.kept, again.ran, again.kept) == (8, 0, 0, 8)
    assert told == [(done, 8) for done in range(1, 9)]
    units = first.units().to_polars()
    assert units["outcome"].to_list() == ["done"] * 8
    assert units["scenario.duration_s"].to_list() == [2] * 4 + [3] * 4
    assert units.height == first.units().to_arrow().num_rows == len(first.units().to_pandas())
    # Two tenants in each.
    assert first.tenants().to_polars().height == 16


def test_progress_estimates_the_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The start, and each unit: half a minute each, but the last, which takes a second.
    times = iter([0.0, 30.0, 60.0, 90.0, 91.0])
    monkeypatch.setattr("tierwise.sweep.time", SimpleNamespace(monotonic=lambda: next(times)))
    progress = sweep.printed(every_s=50.0)
    for done in range(1, 5):
        progress(done, 4)
    told = capsys.readouterr().err.splitlines()
    assert told == ["2 of 4 units, 1:00 min left", "4 of 4 units, 0:00 min left"]


def test_a_unit_is_the_run_that_it_names(plan: Path, scenario: Path, tmp_path: Path) -> None:
    results = sweep.run(plan, Here(), out=tmp_path / "out").units().to_polars()
    for row in results.iter_rows(named=True):
        changed = {"duration_s": row["scenario.duration_s"]}
        alone = tierwise.run(scenario, row["recipe"], seed=row["seed"], overrides=changed)
        assert row["slowdown"] == alone["result"]["slowdown"]


def test_a_sweep_goes_on_where_its_executor_failed(plan: Path, tmp_path: Path) -> None:
    failing = Here(fail_at=3)
    with pytest.raises(RuntimeError, match="the cluster is gone"):
        sweep.run(plan, failing, out=tmp_path / "out", window=1)
    rest = sweep.run(plan, Here(), out=tmp_path / "out")
    assert (rest.ran, rest.kept) == (5, 3)


def test_command_and_package_share_results(plan: Path, tmp_path: Path) -> None:
    sweep.run(plan, Here(), out=tmp_path / "out")
    table = (tmp_path / "out/plan.parquet").read_bytes()
    arguments = [str(COMMAND), "sweep", str(plan), "--out", str(tmp_path / "out")]
    told = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
    assert "; 8 kept from before" in told
    assert (tmp_path / "out/plan.parquet").read_bytes() == table


@pytest.mark.filterwarnings("default")
def test_dask_runs_a_plan(plan: Path, tmp_path: Path) -> None:
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True
    )
    with cluster, Client(cluster) as client:
        first = sweep.run(plan, client, out=tmp_path / "out")
        again = sweep.run(plan, client.get_executor(), out=tmp_path / "out")
    assert (first.ran, again.ran, again.kept) == (8, 0, 8)


@pytest.mark.filterwarnings("default")
def test_a_worker_of_dask_that_dies_loses_no_result(plan: Path, tmp_path: Path) -> None:
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True
    )
    with cluster, Client(cluster) as client:
        pids = list(client.run(os.getpid).values())

        def kill(done: int, _units: int) -> None:
            if done == 1:
                os.kill(pids[0], signal.SIGKILL)

        # One unit at a time on each worker: what was submitted later cannot be lost.
        first = sweep.run(plan, client, out=tmp_path / "out", progress=kill, window=2)
        assert pids[0] not in client.run(os.getpid).values()
    assert first.ran == 8
    assert first.units().to_polars()["outcome"].to_list() == ["done"] * 8
    logs = (tmp_path / "out/kept").glob("*.log")
    kept = [line for log in logs for line in log.read_text().splitlines()]
    assert len(kept) == 8, "each result is kept once"


@pytest.mark.filterwarnings("default")
def test_submitit_runs_a_plan(plan: Path, tmp_path: Path) -> None:
    # The executor of clusters, with the processes of this machine in the place of Slurm.
    executor = submitit.AutoExecutor(folder=tmp_path / "jobs", cluster="local")
    executor.update_parameters(timeout_min=5)
    first = sweep.run(plan, executor, out=tmp_path / "out", window=2)
    again = sweep.run(plan, executor, out=tmp_path / "out")
    assert (first.ran, again.ran, again.kept) == (8, 0, 8)
    # A job per unit, each of which wrote what it returned.
    assert len(list((tmp_path / "jobs").rglob("*_result.pkl"))) == 8
    assert first.units().to_polars()["outcome"].to_list() == ["done"] * 8


def test_keys_do_not_depend_on_words(plan: Path) -> None:
    def keys(text: str) -> list[str]:
        units = sweep.SweepPlan(plan, text=text).units()
        return [json.loads(unit)["key"] for unit in units]

    listed = PLAN.replace("seeds = [1, 2]", "seeds = { from = 1, count = 2 }")
    assert keys(listed) == keys(PLAN)
    assert set(keys(PLAN.replace("[1, 2]", "[3]"))).isdisjoint(keys(PLAN))


def test_mistakes_of_a_plan_are_told(plan: Path, tmp_path: Path) -> None:
    plan.write_text(PLAN.replace("static", "statik"))
    with pytest.raises(tierwise.TierwiseError, match=r"plan.toml:2: recipes: no policy is called"):
        sweep.run(plan, Here(), out=tmp_path / "out")
    with pytest.raises(FileNotFoundError):
        sweep.run(tmp_path / "none.toml", Here(), out=tmp_path / "out")
    with pytest.raises(tierwise.TierwiseError, match="no unit: "):
        sweep.run_unit("{}")
