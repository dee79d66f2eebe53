"""Figures and tables of the floors bench: what the tenants did, and whether each kept its floor."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from .mix_record import MixRecord
from .neighbours import RUN_S, SETTLING_S, floor_mib
from .slo_table import span

# The tenants' work is relative to that under this policy.
REFERENCE = "kernel-tiering"
HEADER = (
    "tenants",
    "policy",
    f"work of {REFERENCE}",
    "least tenant",
    "least floor held",
    "mean floor held",
    "fast misses",
    "pages moved",
    "tiering CPU s",
)


@dataclass(frozen=True, kw_only=True)
class FloorsRun(MixRecord):
    """One run; the fields are those of bench/floors_run.py's result."""

    def work(self, tenant: str) -> float:
        """Returns a tenant's work in the seconds that count."""
        return self.work_between(tenant, SETTLING_S, RUN_S)

    def floors_held(self) -> list[float]:
        """Returns each tenant's fast memory relative to its floor, up to one, at each point that
        counts. A tenant may have less memory than its floor."""
        floor = floor_mib(len(self.resident_mib))
        due = {name: min(floor, resident) for name, resident in self.resident_mib.items()}
        return [
            min(point["fast_mib"][name] / mib, 1.0)
            for point in self.course
            if point["seconds"] >= SETTLING_S
            for name, mib in due.items()
        ]


# A run of each policy in one guest.
RunSet = Mapping[str, FloorsRun]


def relative(runs: RunSet, policy: str) -> list[float]:
    """Returns each tenant's work relative to the reference."""
    reference = runs[REFERENCE]
    return [
        runs[policy].work(name) / max(reference.work(name), 1.0) for name in reference.resident_mib
    ]


def mean(values: Sequence[float]) -> float:
    """Returns the geometric mean."""
    return prod(values) ** (1 / len(values))


def rows(sets: Sequence[RunSet]) -> list[tuple[str, ...]]:
    """Returns a row per policy for one number of tenants, the one with the least work first."""
    names = [name for name in sets[0] if all(name in runs for runs in sets)]
    ordered = sorted(names, key=lambda name: min(mean(relative(runs, name)) for runs in sets))
    return [_row(sets, name) for name in ordered]


def _row(sets: Sequence[RunSet], name: str) -> tuple[str, ...]:
    runs = [one[name] for one in sets]
    shares = [relative(one, name) for one in sets]
    held = [run.floors_held() for run in runs]
    return (
        str(len(runs[0].resident_mib)),
        name,
        span([mean(one) for one in shares], "{:.3f}".format),
        span([min(one) for one in shares], "{:.2f}".format),
        span([min(one) for one in held], "{:.0%}".format),
        span([sum(one) / len(one) for one in held], "{:.1%}".format),
        span([run.fast_misses_after(SETTLING_S) for run in runs], "{:.0%}".format),
        span([run.migrated_pages for run in runs], "{:.0f}".format),
        span([run.tiering_cpu_s() for run in runs], "{:.2f}".format),
    )
