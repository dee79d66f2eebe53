"""Tracks programs without changing them: imported at the interpreter's start if TIERWISE_EMT is
set.

    TIERWISE_EMT=1 TIERWISE_EMT_SLOW_NODES=1 python program.py

The package's .pth file checks the variable; `import tierwise.emt.autostart` in a sitecustomize does
the same. If tracking is not possible, the program runs without it, and the reason goes to standard
error. TIERWISE_EMT_PROFILE names a profile of allocation sites for its heaps, TIERWISE_EMT_DAEMON
the socket of a daemon with which it shares. At the end the heat map is written to the file
TIERWISE_EMT_REPORT, and the stats to the file TIERWISE_EMT_METRICS as OpenMetrics.
"""

import atexit
import os
import sys
from pathlib import Path

from .errors import EmtError
from .heaps import HEAPS
from .process import PROCESS
from .settings import PREFIX, Settings
from .sharing import SHARING
from .support import in_sub_interpreter

#: Values of TIERWISE_EMT that leave it off.
OFF = ("", "0", "false", "no", "off")


def start() -> bool:
    """Starts if the environment enables it; returns true if tracking is on."""
    # A sub-interpreter reads the .pth file too; the process's tracking includes its objects.
    if os.environ.get("TIERWISE_EMT", "").lower() in OFF or in_sub_interpreter():
        return False
    try:
        settings = Settings.from_environment()
        if socket := os.environ.get(PREFIX + "DAEMON"):
            _share(socket)
        PROCESS.start(settings)
        if profile := os.environ.get(PREFIX + "PROFILE"):
            _segregate(profile, settings)
    except (EmtError, ValueError) as error:
        print(f"tierwise.emt: not tracking: {error}", file=sys.stderr)
        return False
    atexit.register(_write_results, os.getpid())
    return True


def _share(socket: str) -> None:
    """Shares with the daemon; tracking goes on without if that is not possible."""
    try:
        SHARING.start(socket)
    except EmtError as error:
        print(f"tierwise.emt: shares nothing: {error}", file=sys.stderr)


def _segregate(profile: str, settings: Settings) -> None:
    """Gives lines of a profile their heaps; tracking goes on without if that is not possible."""
    from .profile import tiers_for

    try:
        topology = PROCESS.topology()
        reserve = settings.reserve_bytes
        sites = tiers_for(profile, topology, reserve, settings.overhead_budget)
        HEAPS.start(topology, sites, reserve)
        SHARING.tell()
    except EmtError as error:
        print(f"tierwise.emt: no heaps: {error}", file=sys.stderr)


def _write_results(pid: int) -> None:
    """Writes the files that the environment names, at the end of the process that started."""
    tracking = PROCESS.last()
    if os.getpid() != pid or tracking is None:
        return
    stats = tracking.stats()
    try:
        if name := os.environ.get(PREFIX + "METRICS"):
            from .metrics import open_metrics

            Path(name).write_text(open_metrics(stats), encoding="utf-8")
        if name := os.environ.get(PREFIX + "REPORT"):
            from .heatmap import report

            report(name, tracking.history, stats, tracking.contents, tracking.coldness)
    except (EmtError, OSError, ValueError) as error:
        print(f"tierwise.emt: {error}", file=sys.stderr)


start()
