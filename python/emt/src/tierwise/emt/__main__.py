"""`python -m tierwise.emt run script.py ...`: runs a program with tracking on; `check` shows the
available signals and nodes."""

import argparse
import importlib.util
import os
import runpy
import sys
from pathlib import Path

from . import end, open_metrics, report, start, stats
from .errors import EmtError, Unavailable
from .settings import DEMOTIONS, SIGNALS, Settings
from .signals import make_signal
from .support import unsupported
from .topology import nodes_with_memory


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(
        prog="python -m tierwise.emt",
        description="Keeps the hot memory of a Python program in the fast tier.",
    )
    commands = top.add_subparsers(dest="command", required=True)
    commands.add_parser(
        "check", help="show the available signals and nodes, and why others are not available"
    )
    run = commands.add_parser("run", help="run a program with tracking on")
    run.add_argument(
        "--slow-nodes",
        default="",
        help="nodes to which cold pages move, separated by commas; without any, pages are only "
        "tracked",
    )
    run.add_argument(
        "--fast-nodes", default="", help="nodes to which hot pages move; by default all others"
    )
    run.add_argument(
        "--mem-pressure",
        default="1GiB",
        help="free memory of the fast nodes below which pages move (default 1GiB)",
    )
    run.add_argument(
        "--sample-interval",
        type=float,
        default=0.25,
        help="seconds of a sampling phase (default 0.25)",
    )
    run.add_argument(
        "--overhead-budget",
        type=float,
        default=0.02,
        help="share of CPU time that it may add (default 0.02)",
    )
    run.add_argument("--signal", choices=SIGNALS, default="uffd-wp")
    run.add_argument("--demotion", choices=DEMOTIONS, default="adaptive")
    run.add_argument(
        "--report",
        type=Path,
        help="write a report into this file: .html or .png with the heat map; .txt, .json or "
        ".folded with cold memory by owner, allocation site and type",
    )
    run.add_argument(
        "--metrics", type=Path, help="write the stats into this file, as OpenMetrics text"
    )
    run.add_argument("--module", "-m", action="store_true", help="the program is a module's name")
    run.add_argument("program")
    run.add_argument("words", nargs=argparse.REMAINDER, help="the program's arguments")
    return top


def settings_of(args: argparse.Namespace) -> Settings:
    """Returns the settings of the command line."""
    return Settings.from_environment(
        {
            "TIERWISE_EMT_SLOW_NODES": args.slow_nodes,
            "TIERWISE_EMT_FAST_NODES": args.fast_nodes,
            "TIERWISE_EMT_MEM_PRESSURE": args.mem_pressure,
            "TIERWISE_EMT_SAMPLE_INTERVAL": str(args.sample_interval),
            "TIERWISE_EMT_OVERHEAD_BUDGET": str(args.overhead_budget),
            "TIERWISE_EMT_SIGNAL": args.signal,
            "TIERWISE_EMT_DEMOTION": args.demotion,
        }
    )


def why_not(args: argparse.Namespace) -> str:
    """Returns the reason why the program cannot run, before anything starts for it; empty if it can
    run."""
    if args.module:
        # Finding a module of a package imports the package, which is left to the program.
        top = args.program.partition(".")[0]
        found = bool(top) and importlib.util.find_spec(top) is not None
        return "" if found else f"there is no module {args.program}; allowed: what python -m runs"
    program = Path(args.program)
    if program.is_dir():
        return (
            ""
            if (program / "__main__.py").exists()
            else f"{program} is a directory without __main__.py; allowed: a Python program"
        )
    try:
        program.open("rb").close()
    except OSError as error:
        return (
            f"{program} cannot be read: {error.strerror}; "
            "allowed: a Python program, or with -m a module's name"
        )
    return ""


def run(args: argparse.Namespace) -> None:
    """Runs the program as __main__. Its exception, SystemExit too, is raised after tracking has
    ended."""
    start(settings_of(args))
    process = os.getpid()
    sys.argv = [args.program, *args.words]
    try:
        if args.module:
            runpy.run_module(args.program, run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = str(Path(args.program).resolve().parent)
            runpy.run_path(args.program, run_name="__main__")
    finally:
        if stats().active:
            end()
        # A forked child that ends like the program does not write the results.
        if os.getpid() == process:
            _write(args)


def _write(args: argparse.Namespace) -> None:
    if args.metrics:
        args.metrics.write_text(open_metrics(stats()), encoding="utf-8")
    if args.report:
        report(args.report)


def check() -> int:
    """Prints the available signals and nodes; returns status 1 if no signal works."""
    if why := unsupported():
        print(f"nothing: {why}")
        return 1
    works = False
    for signal in SIGNALS:
        try:
            make_signal(Settings(signal=signal)).close()
            print(f"{signal}: works")
            works = True
        except Unavailable as error:
            print(f"{signal}: no: {error}")
    nodes = nodes_with_memory()
    print(
        f"nodes with memory: {', '.join(map(str, nodes))}"
        + ("" if len(nodes) > 1 else "; one node: pages can be tracked, not tiered")
    )
    return 0 if works else 1


def main() -> int:
    """Executes the command."""
    args = parser().parse_args()
    if args.command == "check":
        return check()
    try:
        if why := why_not(args):
            print(f"tierwise.emt: {why}", file=sys.stderr)
            return 2
        run(args)
    except (EmtError, ValueError) as error:
        if not _ours(error):
            raise
        print(f"tierwise.emt: {error}", file=sys.stderr)
        return 2
    return 0


def _ours(error: BaseException) -> bool:
    """Returns true if an exception belongs to this package and not to the program that it runs."""
    frames: list[str] = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame.f_globals.get("__name__", ""))
        trace = trace.tb_next
    # runpy runs the program; at the command's own start that module is above main, not below.
    return "runpy" not in frames


if __name__ == "__main__":
    sys.exit(main())
