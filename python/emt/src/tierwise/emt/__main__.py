"""`python -m tierwise.emt run script.py ...`: runs a program with tracking on; `profile` records
its allocation sites for a later run; `check` shows the available signals and nodes."""

import argparse
import importlib.util
import os
import runpy
import sys
from pathlib import Path

from . import end, open_metrics, report, segregate, share, start, stats
from .errors import EmtError, Unavailable
from .heaps import HEAP_TIERS, HEAPS
from .native import NativeTable
from .process import PROCESS
from .profile import Profile, Recorder
from .settings import DEMOTIONS, SIGNALS, Settings
from .signals import make_signal
from .support import unsupported
from .topology import nodes_with_memory

#: A recording may cost more than a run, and sees more for it.
PROFILE_BUDGET = 0.2
#: The shortest window is a 64th of the interval: here a third of a millisecond, in which few pages
#: with cold objects are used.
PROFILE_INTERVAL_S = 0.02


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
        help="free memory of the fast nodes that promotions leave (default 1GiB)",
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
    run.add_argument(
        "--profile",
        type=Path,
        help="give blocks of the lines that are cold and hot in this file, which `profile` wrote, "
        "to heaps on the slow and the fast nodes",
    )
    run.add_argument(
        "--daemon",
        type=Path,
        help="share with tierwised at its socket for tenants: what is placed, and what may be used",
    )
    _add_program(run)
    profile = commands.add_parser(
        "profile", help="run a program, slowly, and write which lines allocate cold and hot memory"
    )
    profile.add_argument("--output", "-o", type=Path, default=Path("sites.json"))
    profile.add_argument("--signal", choices=SIGNALS, default="uffd-wp")
    _add_program(profile)
    return top


def _add_program(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--module", "-m", action="store_true", help="the program is a module's name"
    )
    command.add_argument("program")
    command.add_argument("words", nargs=argparse.REMAINDER, help="the program's arguments")


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
    if args.daemon:
        share(args.daemon)
    start(settings_of(args))
    if args.profile:
        budget = args.overhead_budget
        segregate(profile=args.profile, mem_pressure=args.mem_pressure, overhead_budget=budget)
    process = os.getpid()
    try:
        _execute(args)
    finally:
        if stats().active:
            end()
        # A forked child that ends like the program does not write the results.
        if os.getpid() == process:
            _write(args)


def record(args: argparse.Namespace) -> None:
    """Runs the program as __main__, and writes the profile of its allocation sites."""
    HEAPS.start(None, True)
    recorder = Recorder(_table)
    settings = Settings(
        signal=args.signal, overhead_budget=PROFILE_BUDGET, sample_interval=PROFILE_INTERVAL_S
    )
    start(settings, callback=recorder.observe_sometimes)
    process = os.getpid()
    try:
        _execute(args)
    finally:
        if os.getpid() == process:
            recorder.observe()
            if stats().active:
                end()
            profile = recorder.profile(stats().thread_s + stats().fault_s)
            profile.write(args.output)
            print(_summary(profile, args.output), file=sys.stderr)


def _table() -> NativeTable | None:
    tracking = PROCESS.last()
    return tracking.table if tracking is not None and stats().active else None


def _summary(profile: Profile, path: Path) -> str:
    size = sum(site.bytes for site in profile.sites)
    uses = sum(site.uses for site in profile.sites)
    tiers = profile.tiers()
    hot = [site for site in profile.sites if tiers.get((site.file, site.line)) == HEAP_TIERS["hot"]]
    return (
        f"tierwise.emt: {len(profile.sites)} lines with {size / (1 << 20):.1f} MiB in {path}; "
        f"those of the hottest {sum(site.bytes for site in hot) / (1 << 20):.1f} MiB have "
        f"{sum(site.uses for site in hot) / max(uses, 1e-9):.0%} of the uses"
    )


def _execute(args: argparse.Namespace) -> None:
    sys.argv = [args.program, *args.words]
    if args.module:
        runpy.run_module(args.program, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(args.program).resolve().parent)
        runpy.run_path(args.program, run_name="__main__")


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
        (record if args.command == "profile" else run)(args)
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
