"""Tables with aligned columns for a terminal, and tables in Markdown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .programs import Program
from .steady import of_oracle, steady_after_s, steady_share

# The bound of the policies: it has the fast node without a ballast.
BOUND = "all-fast"
BEST = "*"
HEADER = (
    "policy",
    "seconds",
    "idle s",
    "of all-fast",
    "apart",
    "fast misses",
    "steady",
    "of oracle",
    "after s",
    "fast MiB",
    "pages moved",
    "promoted",
    "demoted",
    "tiering CPU s",
    "P99 us",
)


@dataclass(frozen=True)
class Run:
    """One run of a program under a policy; the fields are those of bench/run.py's result."""

    program: str
    policy: str
    seconds: float
    misses: tuple[int, ...]
    migrated_pages: int
    promoted_pages: int
    demoted_pages: int
    kernel_cpu_s: float
    daemon_cpu_s: float
    resident_mib: float
    fast_mib_at_start: float
    printed: Mapping[str, float]
    host: str = "equal"
    """The state of the fast node before the run (bench/hosts.py)."""
    kdamond_cpu_s: float = 0.0
    """DAMON's part of kernel_cpu_s; 0 in records from before it was counted."""
    idle_s: float = 0.0
    """Seconds for which nothing ran, summed over the CPUs; 0 in records from before."""
    user_misses: tuple[int, ...] = ()
    """The misses by node, without the kernel's."""
    free_mib_at_start: float = 0.0
    file_mib_at_start: float = 0.0
    watermarks_mib: Mapping[str, float] = field(default_factory=dict)
    vmstat: Mapping[str, int] = field(default_factory=dict)
    course: Sequence[Mapping[str, Any]] = ()
    hot: Sequence[Mapping[str, Any]] = ()
    """The misses of the hottest pages over time (bench/course.py)."""
    threads_at_start_s: Sequence[float] = ()
    """Seconds for which each of the program's threads has run when the work starts, the longest
    first."""
    settings: Mapping[str, int] = field(default_factory=dict)
    """The kernel's settings of the policy (bench/policies.py)."""

    @classmethod
    def of(cls, reported: Mapping[str, Any]) -> "Run":
        """The run that a guest reported as JSON."""
        counts = {name: tuple(reported[name]) for name in ("misses", "user_misses")}
        return cls(**{**reported, **counts})

    @property
    def fast_mib_at_end(self) -> float:
        """Returns the MiB of the program's memory on the fast node at the last reading."""
        return float(self.course[-1]["fast_mib"]) if self.course else self.fast_mib_at_start

    @property
    def steady_share(self) -> float:
        """Returns the share of fast misses in the last third."""
        return steady_share(self.course)

    @property
    def of_oracle(self) -> float | None:
        """Returns the steady state's share of fast misses, as a part of the oracle's; `None` for a
        run too short for a curve."""
        return of_oracle(self.course, self.hot, self.watermarks_mib)

    @property
    def steady_after_s(self) -> float:
        """Returns the seconds until the steady state."""
        return steady_after_s(self.course)

    @property
    def fast_share(self) -> float:
        """Returns the share of the program's true misses that the fast node served."""
        misses = self.user_misses or self.misses
        return misses[0] / sum(misses) if sum(misses) else 0.0

    @property
    def cpu_s(self) -> float:
        """Returns the CPU seconds of tiering: the daemon's and the kernel's threads'."""
        return self.kernel_cpu_s + self.daemon_cpu_s

    @property
    def apart_s(self) -> float:
        """Returns the run time without tiering's CPU time: on real machines tiering has a
        CPU of its own."""
        return self.seconds - self.cpu_s


def first_runs(runs: Sequence[Run]) -> list[Run]:
    """Returns the runs without repetitions."""
    seen: dict[str, Run] = {}
    for run in runs:
        seen.setdefault(run.policy, run)
    return list(seen.values())


def spread(runs: Sequence[Run]) -> float:
    """Returns the largest difference between the run times of repeated runs."""
    times: dict[str, list[float]] = {}
    for run in runs:
        times.setdefault(run.policy, []).append(run.seconds)
    return max((max(several) / min(several) - 1 for several in times.values()), default=0.0)


def best(runs: Sequence[Run]) -> str:
    """Returns the fastest policy, without the bound."""
    chosen = [run for run in runs if run.policy != BOUND]
    return min(chosen, key=lambda run: run.seconds).policy if chosen else ""


def rows(runs: Sequence[Run]) -> list[tuple[str, ...]]:
    """Returns one row per policy, as text; the best is marked."""
    chosen = first_runs(runs)
    bound = next((run.seconds for run in chosen if run.policy == BOUND), None)
    marked = best(chosen)
    return [_row(run, bound, BEST if run.policy == marked else "") for run in chosen]


def _row(run: Run, bound: float | None, mark: str) -> tuple[str, ...]:
    p99 = run.printed.get("p99_us")
    return (
        run.policy + mark,
        f"{run.seconds:.2f}",
        f"{run.idle_s:.2f}",
        f"{run.seconds / bound:.3f}" if bound else "-",
        f"{run.apart_s / bound:.3f}" if bound else "-",
        f"{run.fast_share:.1%}",
        f"{run.steady_share:.1%}",
        f"{run.of_oracle:.1%}" if run.of_oracle is not None else "-",
        f"{run.steady_after_s:.1f}",
        f"{run.fast_mib_at_start:.0f} to {run.fast_mib_at_end:.0f}",
        str(run.migrated_pages),
        str(run.promoted_pages),
        str(run.demoted_pages),
        f"{run.cpu_s:.2f}",
        f"{p99:.0f}" if p99 is not None else "-",
    )


def aligned(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Returns a table with columns of the necessary width: the first is aligned left, numbers are
    aligned right."""
    lines = [header, *body]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if i == 0 else text.rjust(width)
            for i, (text, width) in enumerate(zip(line, widths))
        )
        for line in lines
    )


def markdown(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Returns the table in Markdown; the marked row is bold."""
    rules = "|---|" + "--:|" * (len(header) - 1)
    lines = [f"| {' | '.join(header)} |", rules]
    for line in body:
        first = f"**{line[0].removesuffix(BEST)}**" if line[0].endswith(BEST) else line[0]
        lines.append(f"| {' | '.join((first, *line[1:]))} |")
    return "\n".join(lines)


def about(program: Program, runs: Sequence[Run]) -> str:
    """Returns the heading of a block."""
    limited = next((run for run in runs if run.policy != BOUND), None)
    if not limited:
        return f"{program.name}: {program.about}"
    return (
        f"{program.name}: {program.about}; {limited.resident_mib:.0f} MiB, of which "
        f"{limited.fast_mib_at_start:.0f} MiB start on the fast node; "
        f"runs repeat within {spread(runs):.1%}"
    )
