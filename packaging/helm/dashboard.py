#!/usr/bin/env python3
"""Writes the chart's dashboard for Grafana: packaging/helm/dashboard.py > .../files/dashboard.json.

Each panel is one row of PANELS. fleet/tests/test_chart.py compares the file with the output, and
the names of the metrics with those that the daemon has.
"""

import json
import sys
from typing import NamedTuple

# Grafana's grid is 24 columns wide.
COLUMNS = 24


class Panel(NamedTuple):
    """One figure: its title, its unit of Grafana, its queries with their legends, and its width."""

    title: str
    unit: str
    queries: list[tuple[str, str]]
    width: int = 12
    kind: str = "timeseries"
    about: str = ""


# What an operator asks first stands first.
PANELS = [
    Panel(
        "Fast memory of all nodes",
        "bytes",
        [("tierwise:cluster_fast_capacity:bytes", "fast memory")],
        6,
        "stat",
    ),
    Panel(
        "Floors of all pods",
        "bytes",
        [("tierwise:cluster_fast_floors:bytes", "floors")],
        6,
        "stat",
    ),
    Panel(
        "Claimed of what can be claimed",
        "percentunit",
        [("tierwise:cluster_claimed:bytes / tierwise:cluster_claimable:bytes", "claimed")],
        6,
        "stat",
        "The scheduler places no pod with a claim on a node where all is claimed.",
    ),
    Panel(
        "Floors not held",
        "bytes",
        [("sum(tierwise:tenant_floor_missing:bytes)", "missing")],
        6,
        "stat",
        "Floors whose tenants have the memory, and part of it in slow memory.",
    ),
    Panel(
        "Cost of tiering",
        "none",
        [("tierwise:cluster_cpu:cores", "CPUs")],
        6,
        "stat",
        "CPU time of all daemons, DAMON's threads included.",
    ),
    Panel(
        "Who holds fast memory",
        "bytes",
        [('topk(10, tierwise:tenant_fast:bytes{instance=~"$node"})', "{{tenant}}")],
    ),
    Panel(
        "Which namespaces hold fast memory",
        "bytes",
        [
            ("tierwise:namespace_fast:bytes", "{{namespace}}"),
            ("tierwise:namespace_floor_idle:bytes", "idle floors of {{namespace}}"),
        ],
    ),
    Panel(
        "Claims by node",
        "bytes",
        [
            ('tierwise_pods_claimed_bytes{instance=~"$node"}', "{{instance}}"),
            ('tierwise_pods_capacity_bytes{instance=~"$node"}', "{{instance}}: can be claimed"),
        ],
    ),
    Panel(
        "Who misses fast memory most",
        "percentunit",
        [
            (
                'bottomk(10, tierwise_tenant_fast_access_ratio{instance=~"$node"})',
                "{{tenant}}",
            )
        ],
        about="Part of the accesses in fast memory: the lowest would gain most from more of it.",
    ),
    Panel(
        "Who would gain most from more",
        "percentunit",
        [('topk(10, tierwise_tenant_next_gib_ratio{instance=~"$node"})', "{{tenant}}")],
        about="Part of the accesses that a GiB more of fast memory would serve.",
    ),
    Panel(
        "Floors not held, by tenant",
        "bytes",
        [('tierwise:tenant_floor_missing:bytes{instance=~"$node"} > 0', "{{tenant}}")],
    ),
    Panel(
        "Idle floors",
        "bytes",
        [('topk(10, tierwise:tenant_floor_idle:bytes{instance=~"$node"} > 0)', "{{tenant}}")],
        about="What pods reserve and do not use.",
    ),
    Panel(
        "P99 over SLO",
        "percentunit",
        [
            (
                'tierwise_tenant_p99_seconds{instance=~"$node"}'
                ' / tierwise_tenant_slo_seconds{instance=~"$node"}',
                "{{tenant}}",
            )
        ],
        about="Above 1 the SLO is violated.",
    ),
    Panel(
        "Memory pressure",
        "percentunit",
        [
            (
                'topk(10, tierwise_tenant_memory_pressure_ratio{instance=~"$node"})',
                "{{tenant}}",
            )
        ],
    ),
    Panel(
        "Free memory by tier",
        "bytes",
        [('tierwise_tier_free_bytes{instance=~"$node"}', "{{instance}} {{tier}}")],
    ),
    Panel(
        "Memory moved",
        "Bps",
        [
            ('rate(tierwise_moved_bytes_total{instance=~"$node"}[5m])', "{{instance}}"),
            ("tierwise:cluster_moved:bytes_per_second", "all nodes"),
        ],
    ),
    Panel(
        "Moves that failed",
        "ops",
        [
            (
                'sum by (reason) (rate(tierwise_promote_fail_total{instance=~"$node"}[5m]))',
                "promotion: {{reason}}",
            ),
            (
                'sum by (reason) (rate(tierwise_demote_fail_total{instance=~"$node"}[5m]))',
                "demotion: {{reason}}",
            ),
        ],
    ),
    Panel(
        "CPU of the daemons",
        "percentunit",
        [
            ('tierwise_cpu_use_ratio{instance=~"$node"}', "{{instance}}"),
            ('max(tierwise_cpu_budget_ratio{instance=~"$node"})', "budget"),
        ],
    ),
    Panel(
        "Pods that are tenants",
        "none",
        [('tierwise_pods{instance=~"$node"}', "{{instance}}")],
    ),
    Panel(
        "The slowest answer to the container runtime",
        "s",
        [('tierwise_nri_slowest_answer_seconds{instance=~"$node"}', "{{instance}}")],
    ),
]

SOURCE = {"type": "prometheus", "uid": "${source}"}


def places(panels: list[Panel], height: int = 8) -> list[dict[str, int]]:
    """Returns the place of each panel, row by row."""
    found, x, y = [], 0, 0
    for panel in panels:
        if x + panel.width > COLUMNS:
            x, y = 0, y + height
        found.append({"x": x, "y": y, "w": panel.width, "h": height})
        x += panel.width
    return found


def written(number: int, panel: Panel, place: dict[str, int]) -> dict[str, object]:
    """Returns a panel in Grafana's form."""
    targets = [
        {"refId": chr(ord("A") + i), "expr": query, "legendFormat": legend, "datasource": SOURCE}
        for i, (query, legend) in enumerate(panel.queries)
    ]
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": targets,
    }


def dashboard() -> dict[str, object]:
    """Returns the dashboard in Grafana's form."""
    both = zip(PANELS, places(PANELS))
    return {
        "title": "Tierwise",
        "uid": "tierwise",
        "tags": ["tierwise"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {"name": "source", "type": "datasource", "query": "prometheus"},
                {
                    "name": "node",
                    "type": "query",
                    "datasource": SOURCE,
                    "query": "label_values(tierwise_build_info, instance)",
                    "refresh": 2,
                    "multi": True,
                    "includeAll": True,
                    "allValue": ".*",
                },
            ]
        },
        "panels": [written(i, panel, place) for i, (panel, place) in enumerate(both, 1)],
    }


if __name__ == "__main__":
    json.dump(dashboard(), sys.stdout, indent=1)
    print()
