"""Tests of the bench's tables and of its record."""

import json
import os
import sys
import tempfile
import unittest
from argparse import ArgumentTypeError
from dataclasses import replace
from pathlib import Path
from unittest.mock import MagicMock, Mock, patch

from bench.gains import FIGURES, excess_ratio, gains, mean_ratio
from bench.programs import LONG, PROGRAMS, STANDARD, program
from bench.steady import of_oracle, shares, steady_after_s, steady_share
from bench.table import (
    HEADER,
    Run,
    aligned,
    best,
    first_runs,
    markdown,
    rows,
    spread,
)
from tierlab.bench import Block, _json, runs
from tierlab.paths import LAB

sys.path.insert(0, str(LAB / "guest"))
import bench.__main__ as bench_main  # noqa: E402
from bench.course import gave_up, watermarks_mib  # noqa: E402
from bench.measure import Counts, idle_seconds, run_seconds, tiering_threads  # noqa: E402
from bench.policies import POLICIES, Policy  # noqa: E402
from bench.run import record  # noqa: E402

RUN = Run("stairs", "first-touch", 12.0, (30, 70), 5, 0, 0, 0.25, 0.5, 128.0, 40.0, {})
BOUND = replace(RUN, policy="all-fast", seconds=8.0, misses=(100, 0))
TIERWISE = replace(RUN, policy="tierwise", seconds=9.0, misses=(90, 10), printed={"p99_us": 41.6})
RUNS_OF_ONE = [BOUND, RUN, TIERWISE, replace(RUN, seconds=12.6), replace(TIERWISE, seconds=9.09)]


class Records(unittest.TestCase):
    def test_the_host_reads_what_a_guest_reports(self) -> None:
        before = Counts(1.0, (0, 0), (0, 0), {"pgfault": 3}, 0, 0, 0, {}, 1.0, {}, 5.0)
        after = Counts(
            13.0, (30, 70), (20, 60), {"pgfault": 8}, 5, 2, 1, {9: 0.25}, 1.5, {7: 0.5}, 5.25
        )
        points = [{"seconds": 0.0, "fast_mib": 42.0}]
        course = Mock(points=lambda: points, hot=lambda: [])
        room = {"MemFree": 9.0, "FilePages": 4.0}
        reported = record(before, after, (40 << 20, 88 << 20), room, "", course, {"p99_us": 41.6})
        words = {"program": "stairs", "policy": "first-touch", "host": "used"}
        run = Run.of(json.loads(json.dumps({**words, **reported})))
        self.assertEqual((run.host, run.seconds, run.misses), ("used", 12.0, (30, 70)))
        self.assertEqual((run.resident_mib, run.fast_mib_at_end), (128.0, 42.0))
        self.assertEqual((run.kernel_cpu_s, run.kdamond_cpu_s, run.idle_s), (0.75, 0.5, 0.25))
        self.assertEqual((run.vmstat["pgfault"], run.printed["p99_us"]), (5, 41.6))

    def test_a_wait_for_the_disk_is_idle(self) -> None:
        with tempfile.TemporaryDirectory() as proc:
            text = "cpu  100 0 50 30 20 0 1 0 0 0\ncpu0 100 0 50 30 20 0 1 0 0 0\n"
            (Path(proc) / "stat").write_text(text)
            self.assertEqual(idle_seconds(Path(proc)), 50 / os.sysconf("SC_CLK_TCK"))


KERNEL = replace(RUN, policy="kernel-tiering", seconds=10.0)


class Gains(unittest.TestCase):
    def test_the_excess_is_relative_to_the_kernels(self) -> None:
        self.assertEqual(excess_ratio([BOUND, KERNEL, TIERWISE]), 0.5)
        self.assertEqual(
            excess_ratio([BOUND, KERNEL, TIERWISE, replace(TIERWISE, seconds=9.5)]), 0.625
        )
        self.assertIsNone(excess_ratio([BOUND, TIERWISE]))
        self.assertIsNone(excess_ratio([BOUND, replace(KERNEL, seconds=8.0), TIERWISE]))

    def test_the_worst_program_is_first(self) -> None:
        slower = replace(TIERWISE, seconds=12.3)
        programs = {"stairs": [*RUNS_OF_ONE, KERNEL], "graph": [BOUND, RUN, slower]}
        header, body = gains(programs)
        self.assertEqual(
            header,
            ["program", "all-fast", "first-touch", "kernel-tiering", "tierwise", *FIGURES],
        )
        self.assertEqual([row[0] for row in body], ["graph", "stairs"])
        self.assertEqual(body[0][2:7], ["12.00", "-", "12.30", "+2.5%", "-"])
        self.assertEqual(body[1][2:7], ["12.00, 12.60", "10.00", "9.00, 9.09", "-26.5%", "0.52"])
        self.assertEqual(len({len(row) for row in [header, *body]}), 1)

    def test_the_mean_is_geometric(self) -> None:
        quarter = replace(TIERWISE, seconds=8.5)
        programs = {"a": [BOUND, KERNEL, replace(TIERWISE, seconds=10.0)], "b": [BOUND, KERNEL]}
        self.assertEqual(mean_ratio(programs), 1.0)
        self.assertAlmostEqual(mean_ratio({**programs, "b": [BOUND, KERNEL, quarter]}) or 0.0, 0.5)
        self.assertIsNone(mean_ratio({"b": [BOUND, KERNEL]}))


class Options(unittest.TestCase):
    def test_runs_are_policies_in_their_order(self) -> None:
        self.assertEqual(runs("tierwise,all-fast,tierwise"), ["tierwise", "all-fast", "tierwise"])
        with self.assertRaisesRegex(ArgumentTypeError, "no policy is named 'all'"):
            runs("tierwise,all")


class Tables(unittest.TestCase):
    def test_table_columns_line_up(self) -> None:
        lines = aligned(HEADER, rows(RUNS_OF_ONE)).splitlines()
        self.assertEqual(len({len(line) for line in lines}), 1)
        self.assertEqual(len(lines), 4)

    def test_ratios_are_relative_to_the_bound(self) -> None:
        body = {row[0]: row for row in rows(RUNS_OF_ONE)}
        self.assertEqual(body["first-touch"][1:5], ("12.00", "0.00", "1.500", "1.406"))
        self.assertEqual(body["tierwise*"][1:5], ("9.00", "0.00", "1.125", "1.031"))
        self.assertEqual(body["tierwise*"][-2:], ("0.75", "42"))

    def test_the_bound_is_no_candidate(self) -> None:
        self.assertEqual(best(RUNS_OF_ONE), "tierwise")
        self.assertEqual(best([BOUND]), "")

    def test_without_a_bound_there_are_no_ratios(self) -> None:
        self.assertEqual(rows([RUN])[0][3], "-")

    def test_repeated_runs_only_give_the_spread(self) -> None:
        self.assertEqual([run.seconds for run in first_runs(RUNS_OF_ONE)], [8.0, 12.0, 9.0])
        self.assertAlmostEqual(spread(RUNS_OF_ONE), 0.05)
        self.assertEqual(spread([RUN]), 0.0)

    def test_markdown_marks_the_best_row(self) -> None:
        lines = markdown(HEADER, rows(RUNS_OF_ONE)).splitlines()
        self.assertEqual({line.count("|") for line in lines}, {len(HEADER) + 1})
        self.assertTrue(lines[4].startswith("| **tierwise** | 9.00 |"))


def course(*misses: tuple[int, int]) -> list[dict[str, object]]:
    """Returns one point per second, with the misses since the previous point."""
    points: list[dict[str, object]] = [{"seconds": 0.0, "fast_mib": 1.0, "user_misses": (0, 0)}]
    fast = slow = 0
    for second, (more_fast, more_slow) in enumerate(misses, 1):
        fast, slow = fast + more_fast, slow + more_slow
        points.append({"seconds": float(second), "fast_mib": 1.0, "user_misses": (fast, slow)})
    return points


class SteadyStates(unittest.TestCase):
    def test_the_last_third_is_the_steady_state(self) -> None:
        points = course((0, 100), (50, 50), (0, 0), (90, 10), (80, 20), (90, 10))
        self.assertEqual(len(shares(points)), 5)
        self.assertAlmostEqual(steady_share(points), 0.85)
        self.assertEqual(steady_after_s(points), 4.0)

    def test_one_good_interval_is_not_yet_steady(self) -> None:
        points = course((0, 100), (90, 10), (0, 100), (90, 10), (90, 10), (90, 10))
        self.assertEqual(steady_after_s(points), 4.0)

    def test_the_oracle_has_the_hottest_pages_that_fit(self) -> None:
        points = [{**point, "free_mib": 9.5} for point in course((0, 0), (40, 60), (40, 60))]
        parts = [(float(second), 100, (60,) + (100,) * 255) for second in (1, 2, 3)]
        hot = [dict(zip(("seconds", "total", "steps"), part)) for part in parts]
        # Half a mebibyte is the first step of the curve, and the program holds one in fast memory.
        ratio = of_oracle(points, hot, {"high": 9.5})
        self.assertAlmostEqual(ratio or 0.0, 0.4)
        halved = [{**point, "fast_mib": 0.5} for point in points]
        self.assertAlmostEqual(of_oracle(halved, hot, {"high": 9.5}) or 0.0, 0.4 / 0.6)
        # What is free above the watermark could be used.
        self.assertAlmostEqual(of_oracle(halved, hot, {"high": 9.0}) or 0.0, 0.4)

    def test_a_short_run_has_no_oracle(self) -> None:
        self.assertIsNone(of_oracle([], [], {}))

    def test_a_run_without_misses_has_no_share(self) -> None:
        self.assertEqual((steady_share([]), steady_after_s([])), (0.0, 0.0))
        self.assertEqual(steady_share(course((0, 0), (0, 0))), 0.0)


class Watermarks(unittest.TestCase):
    def test_zones_of_a_node_add_up(self) -> None:
        zone = "  pages free 9\n        min 256\n        low 512\n        high 768\n"
        text = f"Node 0, zone DMA\n{zone}Node 0, zone DMA32\n{zone}Node 1, zone Normal\n{zone}"
        found = watermarks_mib(text)
        self.assertEqual(found, {"min": 2.0, "low": 4.0, "high": 6.0, "promo": 0.0})

    def test_a_node_that_kswapd_gave_up(self) -> None:
        zones = "Node {}, zone Normal\n  node_unreclaimable:  {}\n  start_pfn: 1048576\n"
        both = zones.format(0, 0) + zones.format(1, 16)
        self.assertEqual([gave_up(both, node) for node in (0, 1)], [False, True])


class Threads(unittest.TestCase):
    def test_threads_that_do_not_end_count(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            proc = Path(directory)
            for pid, name in ((7, "kswapd0"), (8, "kdamond.0"), (9, "bash"), (10, "kcompactd1")):
                (proc / str(pid)).mkdir()
                (proc / str(pid) / "comm").write_text(name)
            # A thread that has just ended has a name and no times.
            times = " ".join(["0"] * 11 + ["3", "2"])
            (proc / "7" / "stat").write_text(f"7 (kswapd0) {times}")
            self.assertEqual(tiering_threads(proc), {7: 5 / os.sysconf("SC_CLK_TCK")})

    def test_run_times_are_by_thread(self) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            proc = Path(scratch)
            for thread, run_ns in (("8", 250_000_000), ("9", 1_500_000_000)):
                (proc / "8" / "task" / thread).mkdir(parents=True)
                (proc / "8" / "task" / thread / "schedstat").write_text(f"{run_ns} 7 3")
            self.assertEqual(run_seconds([8, 10], proc), [1.5, 0.25])


class Programs(unittest.TestCase):
    def test_names_are_of_one_program_each(self) -> None:
        names = [program.name for program in PROGRAMS]
        self.assertEqual(len(set(names)), len(names))

    def test_long_variants_only_do_more_work(self) -> None:
        found = {one.name: one for one in PROGRAMS if one not in STANDARD}
        self.assertEqual(set(found), {"stairs-long", "graph-long", "redis-long", "xsbench-long"})
        for name, long in found.items():
            short = program(name.removesuffix("-long"))
            words, more = (*short.words, *short.work), (*long.words, *long.work)
            changed = [pair for pair in zip(words, more, strict=True) if pair[0] != pair[1]]
            self.assertEqual(len(changed), 1)
            before, after = (int(word.rpartition("=")[2]) for word in changed[0])
            self.assertEqual(after, LONG * before)
            self.assertEqual((long.times, short.times, long.load), (LONG, 1, short.load))

    def test_every_program_fits_the_nodes(self) -> None:
        for one in PROGRAMS:
            # Programs have 40 to 130 MiB; a third of that and 10 MiB are left.
            self.assertTrue(130 / 3 + 11 >= one.left_mib >= 40 / 3 + 9, one.name)


class FailedRuns(unittest.TestCase):
    def test_others_run_after_a_failed_one(self) -> None:
        def one(_guest: object, _program: object, policy: Policy, _host: str) -> dict[str, object]:
            assert policy is not POLICIES["tierwise"], "it did not start"
            return {"seconds": 1.0}

        with tempfile.TemporaryFile("w+") as events:
            reports = os.dup(events.fileno())
            with (
                patch.multiple(bench_main, Guest=MagicMock(), settle=Mock(), one=one),
                patch.dict(os.environ, LAB_EVENTS=str(reports)),
            ):
                status = bench_main.main(["7", "equal", "xsbench", "tierwise", "first-touch"])
            events.seek(0)
            first, second = map(json.loads, events)
        self.assertEqual(status, 1)
        self.assertEqual(first["failed"], "AssertionError: it did not start")
        self.assertEqual((second["policy"], second["seconds"]), ("first-touch", 1.0))

    def test_a_program_without_runs_is_left_out(self) -> None:
        failed = Block(PROGRAMS[0], "7", failures=["no guest"])
        self.assertEqual(json.loads(_json([failed])), [])


class RecordForm(unittest.TestCase):
    def test_a_record_has_what_validate_reads(self) -> None:
        block = Block(PROGRAMS[0], "7", [BOUND, RUN])
        (read,) = json.loads(_json([block]))
        self.assertEqual((read["kernel"], read["guest"]["cpus"]), ("7", 1))
        self.assertEqual(read["guest"]["latency_ns"], [90, 220])
        self.assertEqual([run["policy"] for run in read["runs"]], ["all-fast", "first-touch"])
        self.assertEqual(read["runs"][0]["settings"], {})


if __name__ == "__main__":
    unittest.main()
