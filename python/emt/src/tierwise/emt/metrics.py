"""Stats as OpenMetrics text."""

from .stats import Stats

#: Name, kind, help text and attribute of each metric.
_FAMILIES = (
    ("tierwise_emt_active", "gauge", "Whether tracking is on.", "active"),
    ("tierwise_emt_pages_tracked", "gauge", "Pages that are known.", "pages_tracked"),
    (
        "tierwise_emt_pages_hot",
        "gauge",
        "Pages that were hot when that was last judged.",
        "pages_hot",
    ),
    ("tierwise_emt_pages_promoted", "counter", "Pages moved to the fast tier.", "promoted"),
    ("tierwise_emt_pages_demoted", "counter", "Pages moved to the slow tier.", "demoted"),
    ("tierwise_emt_pages_failed", "counter", "Pages that did not move though asked to.", "failed"),
    ("tierwise_emt_intervals", "counter", "Sampling phases.", "intervals"),
    (
        "tierwise_emt_intervals_rested",
        "counter",
        "Phases left out to stay within the budget.",
        "rested",
    ),
    ("tierwise_emt_faults", "counter", "Page faults that tracking caused.", "faults"),
    (
        "tierwise_emt_thread_seconds",
        "counter",
        "CPU time of the tracking thread.",
        "thread_s",
    ),
    ("tierwise_emt_fault_seconds", "counter", "CPU time of those faults.", "fault_s"),
    (
        "tierwise_emt_overhead_ratio",
        "gauge",
        "Both, as a share of the program's own CPU time.",
        "overhead",
    ),
    ("tierwise_emt_memory_bytes", "gauge", "Memory that tracking takes.", "memory_bytes"),
)


def open_metrics(stats: Stats) -> str:
    """The text.

    >>> print(open_metrics(Stats(active=True)).splitlines()[2])
    tierwise_emt_active 1
    """
    lines = []
    for name, kind, text, attribute in _FAMILIES:
        suffix = "_total" if kind == "counter" else ""
        value = float(getattr(stats, attribute))
        lines += [
            f"# TYPE {name} {kind}",
            f"# HELP {name} {text}",
            f"{name}{suffix} {value:g}" if value % 1 else f"{name}{suffix} {int(value)}",
        ]
    return "\n".join([*lines, "# EOF", ""])
