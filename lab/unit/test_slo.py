"""Tests of the SLO bench's figures, tables and scenarios."""

import json
import unittest

from bench.mix import BATCH, SERVICES, SETTLING, SHARES, SLO_FACTOR, STEP_S, TENANTS, above, slo_us
from bench.mix_scenario import START_S, scenario, simulated, with_settings
from bench.slo_table import (
    STEP_HEADER,
    SUMMARY_HEADER,
    RunSet,
    SloRun,
    latencies,
    memory,
    policies,
    summary,
    throughput,
)
from bench.table import aligned

STEPS = range(len(SHARES))
SLO_US = 600.0


def steps(p99_us: float, late: int | None = None) -> list[dict[str, float]]:
    """Steps of a service alike, the last but one ten times as slow."""
    found: list[dict[str, float]] = []
    for step in STEPS:
        slow = 10 if step == len(SHARES) - 2 else 1
        figures = {"p99_us": p99_us * slow, "requests": 1000.0}
        found.append(figures if late is None else {**figures, "late": late})
    return found


def run(policy: str, p99_us: float, per_second: float, late: int | None = None) -> SloRun:
    course = [
        {
            "seconds": float(second),
            "fast_mib": dict.fromkeys(TENANTS, 10.0 + second // STEP_S),
            "free_mib": 5.0,
            "user_misses": [3 * second, second],
            "work": {batch.name: per_second * second for batch in BATCH},
        }
        for second in range(len(SHARES) * STEP_S + 1)
    ]
    return SloRun(
        policy=policy,
        slo_us={service.name: SLO_US for service in SERVICES},
        services={service.name: steps(p99_us, late) for service in SERVICES},
        course=course,
        seconds=72.0,
        misses=(3, 1),
        user_misses=(3, 1),
        migrated_pages=7,
        promoted_pages=0,
        demoted_pages=0,
        kernel_cpu_s=0.25,
        daemon_cpu_s=0.5,
        resident_mib=dict.fromkeys(TENANTS, 45.0),
        fast_mib_at_start=dict.fromkeys(TENANTS, 9.0),
        free_mib_at_start=89.0,
        watermarks_mib={"min": 5.0, "low": 6.0, "high": 7.0, "promo": 8.0},
    )


BOUND = run("all-fast", 61.0, 30.0)
KERNEL = run("kernel-tiering", 700.0, 20.0, late=20)
TIERWISE = run("tierwise", 300.0, 18.0, late=0)
SET = RunSet({one.policy: one for one in (BOUND, KERNEL, TIERWISE)})
FEASIBLE = len(SERVICES) * (len(SHARES) - SETTLING - 1)


class Rules(unittest.TestCase):
    def test_slo_follows_from_the_least_load(self) -> None:
        measured = [{"p99_us": 90.0}, {"p99_us": 60.0}, {"p99_us": 80.0}]
        self.assertEqual(slo_us(measured), SLO_FACTOR * 60.0)

    def test_requests_at_the_limit_are_in_time(self) -> None:
        self.assertEqual(above([(10.0, 5), (20.0, 3), (30.0, 2)], 20.0), 2)

    def test_clients_drive_every_step(self) -> None:
        for service in SERVICES:
            rates = next(word for word in service.ramp() if word.startswith("rates="))
            self.assertEqual(rates.count(",") + 1, len(SHARES))


class Figures(unittest.TestCase):
    def test_overload_of_fast_memory_does_not_count(self) -> None:
        self.assertEqual(len(SET.feasible()), FEASIBLE)
        self.assertEqual((SET.kept("tierwise"), SET.kept("kernel-tiering")), (FEASIBLE, 0))

    def test_late_requests_are_of_feasible_steps(self) -> None:
        self.assertEqual((SET.late("kernel-tiering"), SET.late("all-fast")), (0.02, None))
        self.assertAlmostEqual(SET.worst("kernel-tiering"), 700 / SLO_US)

    def test_batch_work_is_relative_to_the_kernels(self) -> None:
        self.assertAlmostEqual(SET.throughput("tierwise"), 0.9)
        self.assertAlmostEqual(TIERWISE.work(BATCH[0].name, 2), 18.0 * STEP_S)

    def test_fast_memory_is_the_mean_of_a_step(self) -> None:
        self.assertEqual([TIERWISE.fast_mib("redis", step) for step in (0, 3)], [10.0, 13.0])
        self.assertEqual(TIERWISE.fast_misses_after(SETTLING * STEP_S), 0.75)


class Tables(unittest.TestCase):
    def test_the_worst_policy_comes_first(self) -> None:
        self.assertEqual(policies([SET]), ["kernel-tiering", "tierwise", "all-fast"])

    def test_table_columns_line_up(self) -> None:
        for header, body in (
            (SUMMARY_HEADER, summary([SET])),
            (STEP_HEADER, latencies([SET])),
            (STEP_HEADER, memory([SET])),
            (STEP_HEADER, throughput([SET])),
        ):
            lines = aligned(header, body).splitlines()
            self.assertEqual(len({len(line) for line in lines}), 1)

    def test_several_sets_show_their_span(self) -> None:
        other = RunSet({**SET.runs, "tierwise": run("tierwise", 660.0, 16.0, late=10)})
        row = next(row for row in summary([SET, other]) if row[0] == "tierwise")
        self.assertEqual(
            row[1:4], (f"0 to {FEASIBLE} of {FEASIBLE}", "0.50 to 1.10", "0.00% to 1.00%")
        )
        marked = next(row for row in latencies([SET, other]) if row[1] == "tierwise")
        self.assertEqual(marked[2], "300 to 660!")


class Scenarios(unittest.TestCase):
    def test_scenario_has_the_guests_room(self) -> None:
        text = scenario("tierwise", TIERWISE, BOUND, (90, 220))
        self.assertIn(f'capacity = "{89 << 20}B"', text)
        self.assertEqual(text.count("[workload.service]"), len(SERVICES))
        self.assertIn(
            f'capacity = "{2 * 225 << 20}B"', scenario("all-fast", BOUND, BOUND, (90, 220))
        )

    def test_the_knee_is_the_highest_kept_load(self) -> None:
        text = scenario("tierwise", TIERWISE, BOUND, (90, 220))
        kept = max(share for share in SHARES[:-2])
        self.assertIn(f"max_per_second = {kept * SERVICES[0].knee:.0f}", text)

    def test_settings_replace_a_recipes_keys(self) -> None:
        text = with_settings("[policy]\nscan = 1000\nsize = 2\n", {"scan": 100})
        self.assertEqual(text, "[policy]\nsize = 2\nscan = 100\n")

    def test_a_steps_worst_second_counts(self) -> None:
        printed = "\n".join(
            json.dumps(
                {
                    "time_seconds": float(second),
                    "fast_access_ratio": 0.5,
                    "promotions": 1,
                    "demotions": 0,
                    "tenants": [
                        {
                            "name": name,
                            "throughput": 2.0,
                            "usage_bytes": [1 << 20, 0],
                            "requests_per_second": 10.0,
                            "p99_ms": 0.5 if second == START_S + STEP_S + 2 else 0.1,
                        }
                        for name in TENANTS
                    ],
                }
            )
            for second in range(1, START_S + len(SHARES) * STEP_S + 1)
        )
        found = simulated("tierwise", printed, TIERWISE)
        p99s = [found.p99_us("redis", step) for step in (0, 1, 2)]
        self.assertEqual(p99s, [100.0, 500.0, 100.0])
        self.assertEqual(found.work(BATCH[0].name, 1), 2.0 * STEP_S)
        self.assertIsNone(RunSet({"all-fast": BOUND, "tierwise": found}).late("tierwise"))


class Services(unittest.TestCase):
    def test_recorded_servers_have_the_recorders_socket(self) -> None:
        for service in SERVICES:
            program = service.recorded()
            self.assertIn("store.sock", program.words)
            self.assertIn("socket=store.sock", program.work)
            self.assertGreater(program.operations, 0)
