"""One table of all programs: run times, and what tiering gains over none and over the kernel's."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, geometric_mean

from .programs import ON_REQUEST, RUNS
from .table import BOUND, Run

OURS = "tierwise"
NONE = "first-touch"
KERNEL = "kernel-tiering"
# Shown after the run times: ours against no tiering, the excess of ours as a part of the kernel's,
# the steady state's share of the oracle's, and the seconds until the steady state.
FIGURES = ("against none", "of kernel's excess", "of oracle", "after s")


def gains(programs: Mapping[str, Sequence[Run]]) -> tuple[list[str], list[list[str]]]:
    """Returns the header and a row per program, worst against no tiering first. A row has the run
    times of each policy, in the order of the runs."""
    ran = {run.policy for runs in programs.values() for run in runs}
    policies = list(dict.fromkeys(name for name in (*RUNS, *ON_REQUEST) if name in ran))
    order = sorted(programs, key=lambda name: -(_against_none(programs[name]) or 0.0))
    body = [_row(name, programs[name], policies) for name in order]
    return ["program", *policies, *FIGURES], body


def mean_ratio(programs: Mapping[str, Sequence[Run]]) -> float | None:
    """Returns the geometric mean of the excesses as parts of the kernel's; `None` if no program has
    one."""
    found = [ratio for runs in programs.values() if (ratio := excess_ratio(runs)) is not None]
    return geometric_mean(found) if found and min(found) > 0 else None


def excess_ratio(runs: Iterable[Run]) -> float | None:
    """Returns our excess as a part of the kernel's tiering. An excess is the mean run time over all
    fast, less one. `None` without all three, or where the kernel's tiering has no excess."""
    of = _means(runs)
    if not {BOUND, KERNEL, OURS} <= of.keys() or of[KERNEL] <= of[BOUND]:
        return None
    return (of[OURS] - of[BOUND]) / (of[KERNEL] - of[BOUND])


def _against_none(runs: Iterable[Run]) -> float | None:
    of = _means(runs)
    return of[OURS] / of[NONE] - 1 if {NONE, OURS} <= of.keys() else None


def _means(runs: Iterable[Run]) -> dict[str, float]:
    times: dict[str, list[float]] = {}
    for run in runs:
        times.setdefault(run.policy, []).append(run.seconds)
    return {policy: fmean(several) for policy, several in times.items()}


def _row(name: str, runs: Sequence[Run], policies: Sequence[str]) -> list[str]:
    def each(policy: str) -> str:
        return ", ".join(f"{run.seconds:.2f}" for run in runs if run.policy == policy) or "-"

    ours = [run for run in runs if run.policy == OURS]
    oracle = [share for run in ours if (share := run.of_oracle) is not None]
    against, ratio = _against_none(runs), excess_ratio(runs)
    return [
        name,
        *(each(policy) for policy in policies),
        f"{against:+.1%}" if against is not None else "-",
        f"{ratio:.2f}" if ratio is not None else "-",
        ", ".join(f"{share:.0%}" for share in oracle) or "-",
        ", ".join(f"{run.steady_after_s:.1f}" for run in ours) or "-",
    ]
