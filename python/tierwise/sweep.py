"""Sweeps on any executor: many simulations, each computed once.

The plan is the TOML file of ``tierwise sweep`` (docs/sweeps.md). Keys and files are the same as the
command's, so that the two share results::

    from concurrent.futures import ProcessPoolExecutor
    from tierwise import sweep

    if __name__ == "__main__":
        with ProcessPoolExecutor() as executor:
            results = sweep.run("sweep.toml", executor, out="results")
        print(results.units().to_pandas())

An executor is anything with ``submit``: of ``concurrent.futures``, a ``distributed.Client`` or what
its ``get_executor()`` returns, submitit's.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tierwise._tierwise import SweepPlan, SweepStore, run_unit

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

__all__ = ["Frame", "Results", "SweepPlan", "printed", "run", "run_unit"]

#: Called with the units done and all units to run.
Progress = Callable[[int, int], None]

#: Units submitted at a time: enough for a cluster to see that it is too small, and few enough for
#: the memory of a scheduler.
WINDOW = 1024

#: Seconds between two looks at futures that cannot be waited for together.
LOOK_S = 0.05


def printed(every_s: float = 10.0) -> Progress:
    """A progress that prints lines such as ``250 of 10,000 units, 2:36 min left`` to stderr.

    The estimate is from the mean time of a unit so far. Make one for each `run`.

    Args:
        every_s: Seconds between two lines; the last unit always has one.
    """
    start = time.monotonic()
    next_line = start + every_s

    def progress(done: int, units: int) -> None:
        nonlocal next_line
        now = time.monotonic()
        if now < next_line and done < units:
            return
        next_line = now + every_s
        minutes, seconds = divmod(round((now - start) / done * (units - done)), 60)
        left = f"{minutes}:{seconds:02} min left"
        print(f"{done:,} of {units:,} units, {left}", file=sys.stderr, flush=True)

    return progress


@dataclass(frozen=True)
class Frame:
    """A table of a sweep, in a Parquet file."""

    path: Path

    def to_arrow(self) -> "pyarrow.Table":
        """The table in Arrow's form."""
        from pyarrow import parquet

        return parquet.read_table(self.path)

    def to_pandas(self) -> "pandas.DataFrame":
        """The table as a pandas frame."""
        frame: pandas.DataFrame = self.to_arrow().to_pandas()
        return frame

    def to_polars(self) -> "polars.DataFrame":
        """The table as a polars frame, without Arrow's library."""
        import polars

        return polars.read_parquet(self.path)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)


@dataclass(frozen=True)
class Results:
    """What a sweep wrote."""

    directory: Path
    name: str
    #: Units that this call ran, and those that were kept before.
    ran: int
    kept: int

    def units(self) -> Frame:
        """A row per unit."""
        return Frame(self.directory / f"{self.name}.parquet")

    def tenants(self) -> Frame:
        """A row per unit and tenant."""
        return Frame(self.directory / f"{self.name}.tenants.parquet")


def run(
    plan: str | os.PathLike[str] | SweepPlan,
    executor: Any,
    *,
    out: str | os.PathLike[str],
    progress: Progress | None = None,
    window: int = WINDOW,
) -> Results:
    """Runs the units of a plan that ``out`` has no result of, and writes the tables.

    Results are kept as they come. When this raises, because the executor failed or Ctrl-C came, the
    next call with the same ``out`` goes on from there.

    Args:
        plan: The plan's file.
        executor: Anything with ``submit(function, argument)``. Its workers need this package of the
            same build, and the traces at the same paths.
        out: The directory of results; ``tierwise sweep --out`` takes the same.
        progress: Called after every unit; `printed` makes one that estimates the time left.
        window: Units submitted at a time.

    Raises:
        TierwiseError: The plan is wrong; the message names file, line and key.
    """
    if not isinstance(plan, SweepPlan):
        plan = SweepPlan(os.fspath(plan))
    directory = Path(out)
    store = SweepStore(os.fspath(directory / "kept"), plan)
    missing = store.missing()
    kept = len(plan) - len(missing)
    try:
        for done, record in enumerate(_records(missing, executor, window), 1):
            store.append(record)
            if progress is not None:
                progress(done, len(missing))
    finally:
        store.sync()
    results = Results(directory, plan.name, len(missing), kept)
    store.write(os.fspath(results.units().path), os.fspath(results.tenants().path))
    return results


def _records(units: list[str], executor: Any, window: int) -> Iterator[str]:
    """Records in the order in which units end."""
    # A distributed.Client takes equal calls for one, which is right here, and names its executor.
    submit = (
        executor.get_executor().submit if hasattr(executor, "get_executor") else executor.submit
    )
    waiting = iter(units)
    pending: set[Any] = set()
    try:
        while True:
            for unit in waiting:
                pending.add(submit(run_unit, unit))
                if len(pending) >= window:
                    break
            if not pending:
                return
            done = _wait(pending)
            pending -= done
            for future in done:
                yield future.result()
    finally:
        for future in pending:
            future.cancel()


def _wait(pending: set[Any]) -> set[Any]:
    """The futures that are done, at least one."""
    from concurrent.futures import FIRST_COMPLETED, Future, wait

    if all(isinstance(future, Future) for future in pending):
        return set(wait(pending, return_when=FIRST_COMPLETED).done)
    # submitit's jobs only tell whether they are done.
    while not (done := {future for future in pending if future.done()}):
        time.sleep(LOOK_S)
    return done
