"""The command: python3 -m tierlab build|test|bench|slo|floors|record|shell|run|list."""

import argparse
import inspect
import os
import signal
import sys
import time
from pathlib import Path

from bench.programs import PROGRAMS

from . import bench, floors, slo
from .build import build
from .collect import groups, tests
from .errors import LabError
from .guest import Guest, remove_stale_runs
from .job import Job
from .kernel import SERIES, series
from .mode import Mode
from .paths import Paths
from .suite import Report, run
from .topology import TOPOLOGIES, topology

EXAMPLES = """examples:
  python3 -m tierlab build
  python3 -m tierlab run --kernel 7 -- 'cat /proc/version; where $$ 0x400000 4096'
  python3 -m tierlab run --timed --results /tmp/out -- \\
      'sleep 8; chase 16384 1 | tee /results/chase.json'
  python3 -m tierlab shell --topology flat --memory 512,2048
  python3 -m tierlab test --kernel 6.12 --filter damon
  python3 -m tierlab bench --program graph --markdown
  python3 -m tierlab slo --runs 3 --keep /tmp/slo.json
  python3 -m tierlab floors --tenants 8 --runs 3 --keep /tmp/floors.json
  python3 -m tierlab record --program graph
  python3 -m tierlab list
"""
# Long enough for each of the shipped jobs, and short enough for interactive use.
RUN_TIMEOUT_S = 600.0


def _machine_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kernel", default=SERIES[0].name, help="the kernel series (default: %(default)s)"
    )
    parser.add_argument(
        "--topology",
        default="hmat",
        help="the machine: " + ", ".join(TOPOLOGIES) + " (default: hmat)",
    )
    parser.add_argument(
        "--memory", metavar="MIB,MIB", help="sizes of the nodes (default: the machine's)"
    )
    parser.add_argument(
        "--timed", action="store_true", help="misses take the guest's time; one CPU"
    )
    parser.add_argument(
        "--truth", action="store_true", help="count true misses in function mode too (slower)"
    )


def _guest(paths: Paths, options: argparse.Namespace) -> Guest:
    machine = topology(options.topology)
    if options.memory:
        try:
            machine = machine.sized(*(int(size) for size in options.memory.split(",")))
        except ValueError as error:
            raise LabError(
                f"--memory {options.memory}: sizes in MiB are expected, for example 512,2048"
            ) from error
    return Guest(
        paths, series(options.kernel).name, machine, Mode(timed=options.timed, truth=options.truth)
    )


def _job(paths: Paths, options: argparse.Namespace) -> int:
    guest = _guest(paths, options)
    job = Job(" ".join(options.words), options.job)
    outcome = guest.run(
        job,
        options.timeout,
        on_event=print,
        on_console=lambda line: print(line, flush=True),
        results=options.results,
    )
    if outcome.exit_code is None:
        raise LabError(f"{outcome.reason}\nthe end of its console:\n{outcome.console_tail()}")
    boot = f"{outcome.boot_s:.1f}" if outcome.boot_s is not None else "?"
    printed = f"status {outcome.exit_code}, boot {boot} s, in all {outcome.wall_s:.1f} s"
    print(f"lab: {outcome.release}: {printed}", file=sys.stderr)
    return outcome.exit_code


def _test(paths: Paths, options: argparse.Namespace) -> int:
    kernels = [series(options.kernel).name] if options.kernel else [known.name for known in SERIES]
    began = time.monotonic()
    report = Report(options.json)
    passed = run(paths, groups(options.filter, kernels, options.smoke), report)
    failed = sum(not result.ok for result in report.results)
    again = sum(result.ok and result.again for result in report.results)
    only_alone = f", {again} passed only alone" if again else ""
    report.print_line(
        f"{len(report.results)} tests, {failed} failed{only_alone}, "
        f"{time.monotonic() - began:.0f} s"
    )
    for result in report.results:
        if not result.ok:
            # Failures are repeated at the end, for a reader who sees only the end of the output.
            report.print_line(
                f"failed: {result.kernel} {result.test}: "
                f"{result.reason.splitlines()[0] if result.reason else ''}"
            )
    return 0 if passed else 1


def _list() -> int:
    for test in tests():
        first = inspect.cleandoc(test.function.__doc__ or "").partition("\n\n")[0]
        about = " ".join(first.split())
        print(f"{test.name}  [{test.boot}{'/' + test.share if test.share else ''}]  {about}")
        for kernel, absence in test.absences.items():
            print(f"    on {kernel}: asserts that it cannot: {absence.reason}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 -m tierlab",
        description="Stock Debian kernels with a fast and a slow memory node, in QEMU.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser(
        "build", help="build or renew what the lab needs, into target/lab/ (as root, on Debian)"
    )
    shell = commands.add_parser("shell", help="boot with this terminal as the console")
    _machine_options(shell)
    test = commands.add_parser("test", help="run the tests; status 1 if one fails")
    test.add_argument(
        "--filter", default="", metavar="TEXT", help="only tests with this in their name"
    )
    test.add_argument(
        "--smoke", action="store_true", help="only a few tests, one or two of each part"
    )
    test.add_argument(
        "--kernel", help="only this series: " + ", ".join(known.name for known in SERIES)
    )
    test.add_argument(
        "--json", action="store_true", help="a JSON object per test instead of a line"
    )
    bench.add_options(
        commands.add_parser(
            "bench", help="measure policies in timed guests, and the simulator against them"
        )
    )
    slo.add_options(
        commands.add_parser(
            "slo", help="measure services with an SLO beside batch programs in timed guests"
        )
    )
    floors.add_options(
        commands.add_parser("floors", help="measure tenants with floors in timed guests")
    )
    record = commands.add_parser(
        "record", help="record the bench's programs into target/lab/recordings/"
    )
    record.add_argument(
        "--program",
        action="append",
        choices=[program.name for program in PROGRAMS],
        help="only this one; repeatable (default: all but the long ones)",
    )
    commands.add_parser("list", help="name the tests")
    job = commands.add_parser("run", help="boot and run a command")
    _machine_options(job)
    job.add_argument(
        "--job",
        type=Path,
        help="a directory whose contents the command finds in its working directory",
    )
    job.add_argument(
        "--results", type=Path, help="where to put what the command leaves in /results"
    )
    job.add_argument(
        "--timeout", type=float, default=RUN_TIMEOUT_S, help="seconds (default: %(default).0f)"
    )
    job.add_argument("words", nargs="+", metavar="COMMAND", help="run by the guest's bash")
    return parser


def main() -> int:
    """Runs the command line; returns the exit status: 2 for a user's mistake or a missing tool."""
    options = _parser().parse_args()
    # SIGTERM acts like an interrupt: a regular exit ends the guests, and the signal's default
    # action would not.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    paths = Paths.default()
    try:
        remove_stale_runs(paths)
        if options.command == "build":
            build(paths)
            return 0
        if options.command == "list":
            return _list()
        if options.command == "shell":
            return _guest(paths, options).shell()
        if options.command == "bench":
            return bench.bench(paths, options)
        if options.command == "slo":
            return slo.slo(paths, options)
        if options.command == "floors":
            return floors.floors(paths, options)
        if options.command == "record":
            bench.record_programs(paths, options.program or ())
            return 0
        return _test(paths, options) if options.command == "test" else _job(paths, options)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # The reader of the output has closed it. The rest of Python's buffer is discarded.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
