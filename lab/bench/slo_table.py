"""Figures and tables of the SLO bench: which services kept their SLO, and what the batch programs
did meanwhile."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from .mix import BATCH, SERVICES, SETTLING, SHARES, STEP_S, TENANTS
from .mix_record import MixRecord
from .table import BOUND

# The batch programs' work is relative to that under this policy.
REFERENCE = "kernel-tiering"
SUMMARY_HEADER = (
    "policy",
    "steps kept",
    "worst P99 of SLO",
    "late requests",
    *(f"{batch.name}" for batch in BATCH),
    f"batch of {REFERENCE}",
    "fast misses",
    "pages moved",
    "tiering CPU s",
)
STEP_HEADER = ("tenant", "policy", *(f"{share:.0%}" for share in SHARES))


@dataclass(frozen=True, kw_only=True)
class SloRun(MixRecord):
    """One run of the ramp; the fields are those of bench/mix_run.py's result."""

    slo_us: Mapping[str, float]
    services: Mapping[str, Sequence[Mapping[str, float]]]
    """Each service's steps, as its client printed them."""
    settings: Mapping[str, int] = field(default_factory=dict)
    """The kernel's settings of the policy (bench/policies.py)."""

    def p99_us(self, service: str, step: int) -> float:
        """Returns a service's P99 in a step, in microseconds."""
        return self.services[service][step]["p99_us"]

    def keeps(self, service: str, step: int) -> bool:
        """Returns true if a service's P99 in a step is within its SLO."""
        return self.p99_us(service, step) <= self.slo_us[service]

    def work(self, batch: str, step: int) -> float:
        """Returns the work of a batch program in a step."""
        return self.work_between(batch, step * STEP_S, (step + 1) * STEP_S)

    def fast_mib(self, tenant: str, step: int) -> float:
        """Returns the mean of a tenant's fast memory in a step, in MiB."""
        points = [
            point["fast_mib"][tenant]
            for point in self.course
            if step * STEP_S <= point["seconds"] < (step + 1) * STEP_S
        ]
        return float(sum(points) / len(points)) if points else 0.0


COUNTED = range(SETTLING, len(SHARES))


@dataclass(frozen=True)
class RunSet:
    """One run of each policy, in one guest."""

    runs: Mapping[str, SloRun]

    def feasible(self) -> list[tuple[str, int]]:
        """Returns the services and steps whose SLO fast memory alone keeps."""
        bound = self.runs[BOUND]
        return [
            (service.name, step)
            for service in SERVICES
            for step in COUNTED
            if bound.keeps(service.name, step)
        ]

    def kept(self, policy: str) -> int:
        """Returns how many of the feasible steps a policy keeps."""
        return sum(self.runs[policy].keeps(*pair) for pair in self.feasible())

    def worst(self, policy: str) -> float:
        """Returns the largest P99 in a feasible step, relative to its SLO."""
        run = self.runs[policy]
        return max(
            (run.p99_us(name, step) / run.slo_us[name] for name, step in self.feasible()),
            default=0.0,
        )

    def late(self, policy: str) -> float | None:
        """Returns the share of the feasible steps' requests that took longer than the SLO. They are
        not counted under the bound, whose run gives the SLO, and in the simulator."""
        steps = [self.runs[policy].services[name][step] for name, step in self.feasible()]
        if not steps or any("late" not in step for step in steps):
            return None
        return sum(step["late"] for step in steps) / max(sum(s["requests"] for s in steps), 1)

    def relative(self, policy: str, batch: str) -> float:
        """Returns a batch program's work in all steps that count, relative to the reference."""
        work = [
            sum(self.runs[name].work(batch, step) for step in COUNTED)
            for name in (policy, REFERENCE)
        ]
        return work[0] / work[1] if work[1] else 0.0

    def throughput(self, policy: str) -> float:
        """Returns the geometric mean of the batch programs' relative work."""
        return prod(self.relative(policy, batch.name) for batch in BATCH) ** (1 / len(BATCH))


def span(values: Sequence[float], show: Callable[[float], str]) -> str:
    """Returns the least and the greatest value, as text; one if they look the same."""
    low, high = show(min(values)), show(max(values))
    return low if low == high else f"{low} to {high}"


def policies(sets: Sequence[RunSet]) -> list[str]:
    """Returns the policies of all sets: the one that keeps the fewest steps first, and of these the
    one with the least batch work."""
    names = [name for name in sets[0].runs if all(name in one.runs for one in sets)]
    return sorted(
        names,
        key=lambda name: (
            min(one.kept(name) for one in sets),
            min(one.throughput(name) for one in sets) if REFERENCE in names else 0.0,
        ),
    )


def summary(sets: Sequence[RunSet]) -> list[tuple[str, ...]]:
    """Returns a row per policy, the worst first."""
    return [_summary_row(sets, name) for name in policies(sets)]


def _summary_row(sets: Sequence[RunSet], name: str) -> tuple[str, ...]:
    runs = [one.runs[name] for one in sets]
    related = all(REFERENCE in one.runs for one in sets)

    def relative(of: Callable[[RunSet], float]) -> str:
        return span([of(one) for one in sets], "{:.2f}".format) if related else "-"

    def of_batch(batch: str) -> str:
        return relative(lambda one: one.relative(name, batch))

    return (
        name,
        span([one.kept(name) for one in sets], "{:.0f}".format)
        + f" of {span([len(one.feasible()) for one in sets], '{:.0f}'.format)}",
        span([one.worst(name) for one in sets], "{:.2f}".format),
        _late([one.late(name) for one in sets]),
        *(of_batch(batch.name) for batch in BATCH),
        relative(lambda one: one.throughput(name)),
        span([run.fast_misses_after(SETTLING * STEP_S) for run in runs], "{:.0%}".format),
        span([run.migrated_pages for run in runs], "{:.0f}".format),
        span([run.tiering_cpu_s() for run in runs], "{:.2f}".format),
    )


def _late(shares: Sequence[float | None]) -> str:
    known = [share for share in shares if share is not None]
    return span(known, "{:.2%}".format) if known else "-"


def latencies(sets: Sequence[RunSet]) -> list[tuple[str, ...]]:
    """Returns the P99 of each service, policy and step, in microseconds; those above the SLO have a
    mark."""

    def shown(service: str, name: str, step: int) -> str:
        runs = [one.runs[name] for one in sets]
        mark = "" if all(run.keeps(service, step) for run in runs) else "!"
        return span([run.p99_us(service, step) for run in runs], "{:.0f}".format) + mark

    return [
        (service.name, name, *(shown(service.name, name, step) for step in range(len(SHARES))))
        for service in SERVICES
        for name in policies(sets)
    ]


def memory(sets: Sequence[RunSet]) -> list[tuple[str, ...]]:
    """Returns each tenant's mean fast memory in every step, in MiB."""
    return [
        (
            tenant,
            name,
            *(
                span([one.runs[name].fast_mib(tenant, step) for one in sets], "{:.0f}".format)
                for step in range(len(SHARES))
            ),
        )
        for tenant in TENANTS
        for name in policies(sets)
        if name != BOUND
    ]


def throughput(sets: Sequence[RunSet]) -> list[tuple[str, ...]]:
    """Returns each batch program's work per second in every step, in thousands."""
    return [
        (
            batch.name,
            name,
            *(
                span(
                    [one.runs[name].work(batch.name, step) / STEP_S / 1e3 for one in sets],
                    "{:.0f}".format,
                )
                for step in range(len(SHARES))
            ),
        )
        for batch in BATCH
        for name in policies(sets)
    ]
