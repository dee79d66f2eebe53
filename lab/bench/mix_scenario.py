"""The SLO bench's guest as a scenario of the simulator, and the simulator's course as a run.

Nothing is fitted to a result: latencies, sizes, watermarks and rates are the guest's. A service's
CPU time per request follows from the highest load at which it keeps its SLO with fast memory only,
and the simulator serves each service by a server of its own. The costs of a page's move and of a
hint fault are those with which `tierwise validate` simulates a guest.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from .mix import BATCH, SERVICES, SETTLING, SHARES, STEP_S, TENANTS, Service
from .slo_table import SloRun

MIB = 1 << 20
PAGE_KIB = 4
# The daemon's unit of placement (tierguest/configuration.py).
BLOCK_KIB = 256
# A bandwidth that no program reaches, because a guest does not model bandwidth.
UNLIMITED_GBPS = 100_000
# A page has 64 lines; a copy loads and stores each.
LINES = 64
# Kernel work in a guest for a page's move without its copy, a hint fault, and reading a page table
# entry (crates/tierwise-cli/src/validate/guest.rs has the measurements).
MIGRATE_PAGE_NS, HINT_FAULT_NS, SCAN_PTE_NS = 8000, 3800, 135
# The seconds in which the batch programs fill their memory, before the services start.
START_S = 80
# A simulated batch program repeats its recorded work.
LOOPS = 1000
# Missed lines of a request on one page, on average. A value has 63 lines. Redis finds it by three
# other pages (bucket, entry, key), Memcached by one (bucket).
LINES_TOGETHER = {"redis": 16, "memcached": 32}
# The recipe of each policy, and the granule in KiB: the kernel moves pages and the daemon blocks.
RECIPES = {
    "all-fast": ("static", PAGE_KIB),
    "first-touch": ("static", PAGE_KIB),
    "kernel-tiering": ("kernel-tiering", PAGE_KIB),
    "kernel-default": ("kernel-tiering", PAGE_KIB),
    "tierwise": ("tierwise", BLOCK_KIB),
}


def scenario(policy: str, run: SloRun, bound: SloRun, latency_ns: Sequence[int]) -> str:
    """Returns a run's guest as a scenario; `bound` is the run with all memory fast."""
    granule = RECIPES[policy][1] << 10
    fast_ns, slow_ns = latency_ns
    resident = sum(run.resident_mib.values())
    fast = run.free_mib_at_start if run is not bound else 2 * resident
    marks = run.watermarks_mib
    levels = [f'{name} = "{_bytes(marks[name])}B"' for name in ("min", "low", "high", "promo")]
    return "\n".join(
        [
            f'name = "slo-{policy}"',
            'summary = "services with an SLO beside batch programs, in a guest of the lab"',
            f"duration_s = {START_S + len(SHARES) * STEP_S}",
            "[machine]",
            "instruction_ns = 1.0",
            f'granule = "{granule}B"',
            "cpus = 1",
            "[costs]",
            f"migrate_page_ns = {MIGRATE_PAGE_NS}",
            f"hint_fault_ns = {HINT_FAULT_NS}",
            "poison_ns = 0",
            f"scan_pte_ns = {SCAN_PTE_NS}",
            f"copy_bytes_per_ns = {(PAGE_KIB << 10) / (LINES * (fast_ns + slow_ns)):.4f}",
            *_tier("fast", _whole(fast, granule), fast_ns),
            "[machine.tier.watermarks]",
            *levels,
            *_tier("slow", _whole(2 * resident, granule), slow_ns),
            *(line for batch in BATCH for line in _batch(batch.name, run, granule)),
            *(line for service in SERVICES for line in _service(service, run, bound, granule)),
        ]
    )


def _bytes(mib: float) -> int:
    return int(mib * MIB)


def _whole(mib: float, granule: int) -> int:
    return max(_bytes(mib) // granule, 1) * granule


def _tier(name: str, capacity: int, load_ns: int) -> list[str]:
    return [
        "[[machine.tier]]",
        f'name = "{name}"',
        f'capacity = "{capacity}B"',
        f"load_ns = {load_ns}",
        f"read_gbps = {UNLIMITED_GBPS}",
    ]


def _batch(name: str, run: SloRun, granule: int) -> list[str]:
    return [
        "[[workload]]",
        f'name = "{name}"',
        f'trace = "slo-{name}.twt"',
        'measure_from = "run"',
        f'footprint = "{_whole(run.resident_mib[name], granule)}B"',
        f"loops = {LOOPS}",
    ]


def _service(service: Service, run: SloRun, bound: SloRun, granule: int) -> list[str]:
    kept = [
        share
        for step, share in enumerate(SHARES)
        if step >= SETTLING and bound.keeps(service.name, step)
    ]
    knee = max(kept, default=SHARES[0]) * service.knee
    loads = ", ".join(f"{share * service.knee / knee:.4f}" for share in SHARES)
    return [
        "[[workload]]",
        f'name = "{service.name}"',
        f"start_s = {START_S}",
        f"slo_ms = {run.slo_us[service.name] / 1e3:.4f}",
        "[workload.service]",
        f'trace = "slo-{service.name}.twt"',
        f"lines_together = {LINES_TOGETHER[service.name]}",
        f'footprint = "{_whole(run.resident_mib[service.name], granule)}B"',
        f"max_per_second = {knee:.0f}",
        'arrivals = "curve"',
        f"curve_s = [{', '.join(f'{STEP_S}.0' for _ in SHARES)}]",
        f"curve_load = [{loads}]",
        "repeat = false",
    ]


def with_settings(recipe: str, values: Mapping[str, int]) -> str:
    """Returns a recipe's text with other values of some keys of its last table."""
    kept = [line for line in recipe.splitlines() if line.partition("=")[0].strip() not in values]
    return "\n".join([*kept, *(f"{key} = {value}" for key, value in values.items())]) + "\n"


def simulated(policy: str, printed: str, run: SloRun) -> SloRun:
    """Returns the course that `tierwise simulate` printed, a point per second, as a run. The P99 of
    a step is that of its worst second; work is in instructions."""
    points = [json.loads(line) for line in printed.splitlines()]
    course: list[dict[str, Any]] = [_start()]
    for point in points:
        at = round(point["time_seconds"]) - START_S
        if at > 0:
            course.append(_follow(course[-1], point, at))
    services = {
        service.name: [_step(service, points, step) for step in range(len(SHARES))]
        for service in SERVICES
    }
    last = course[-1]["user_misses"]
    return SloRun(
        policy=policy,
        slo_us=run.slo_us,
        services=services,
        course=course,
        seconds=float(len(SHARES) * STEP_S),
        misses=last,
        user_misses=last,
        migrated_pages=sum(point["promotions"] + point["demotions"] for point in points),
        promoted_pages=sum(point["promotions"] for point in points),
        demoted_pages=sum(point["demotions"] for point in points),
        kernel_cpu_s=0.0,
        daemon_cpu_s=0.0,
        resident_mib=run.resident_mib,
        fast_mib_at_start=run.fast_mib_at_start,
        free_mib_at_start=run.free_mib_at_start,
    )


def _start() -> dict[str, Any]:
    return {
        "seconds": 0.0,
        "fast_mib": dict.fromkeys(TENANTS, 0.0),
        "user_misses": [0.0, 0.0],
        "work": {batch.name: 0.0 for batch in BATCH},
    }


def _follow(before: Mapping[str, Any], point: Mapping[str, Any], at: int) -> dict[str, Any]:
    """Returns the point after a second. Of the misses only their shares are known."""
    tenants = {tenant["name"]: tenant for tenant in point["tenants"]}
    fast = point["fast_access_ratio"]
    return {
        "seconds": float(at),
        "fast_mib": {name: tenants[name]["usage_bytes"][0] / MIB for name in TENANTS},
        "user_misses": [before["user_misses"][0] + fast, before["user_misses"][1] + 1 - fast],
        "work": {
            batch.name: before["work"][batch.name] + tenants[batch.name]["throughput"]
            for batch in BATCH
        },
    }


def _step(service: Service, points: Sequence[Mapping[str, Any]], step: int) -> dict[str, float]:
    seconds = [
        tenant
        for point in points
        if step * STEP_S < round(point["time_seconds"]) - START_S <= (step + 1) * STEP_S
        for tenant in point["tenants"]
        if tenant["name"] == service.name
    ]
    return {
        "p99_us": max(((second["p99_ms"] or 0.0) * 1e3 for second in seconds), default=0.0),
        "requests": sum(second["requests_per_second"] or 0.0 for second in seconds),
    }
