"""The daemon as the bench runs it, in the guest: with the CPU weight of its systemd unit."""

import time
from pathlib import Path

from tierguest import Guest
from tierguest.cgroup import Cgroup
from tierguest.configuration import configuration
from tierguest.daemon import Tierwised
from tierguest.files import read, write

# A timed guest's CPU has its nominal speed, so a share of it means the same as elsewhere. Runs take
# some ten seconds, and programs take minutes. The daemon must learn in a tenth of the time, and may
# use ten times its default budget.
BUDGET_PERCENT = 10.0
LEARNING = {"cap_percent = 300.0": "cap_percent = 30.0"}
# A daemon that steers moves and monitors nothing itself, and has no more than it has by default.
INSTALLED = {
    "interval_ms = 500": "interval_ms = 1000",
    "budget_percent = 10.0": "budget_percent = 1.0",
    "cap_percent = 300.0": "cap_percent = 3.0",
}

# The daemon's start and its first surveys are over then. An idle guest's clock jumps.
RUNNING_S = 15

# The job has it beside this package.
UNIT = "tierwised.service"


def start_daemon(
    guest: Guest,
    tenants: list[tuple[str, str]],
    installed: bool,
    recipe: str = "tierwise",
    steer: bool = True,
) -> Tierwised:
    """Starts the daemon for these tenants. As installed it may use 1 % of the CPU; otherwise ten
    times as much."""
    config = configuration(guest, recipe, tenants, budget_percent=BUDGET_PERCENT, steer=steer)
    for line, other in (INSTALLED if installed else LEARNING).items():
        assert line in config, f"{line!r} is not in the configuration"
        config = config.replace(line, other)
    # What systemd makes of the unit.
    group = guest.cgroup(UNIT)
    write(group.path / "cpu.weight", _cpu_weight())
    enter = 'echo $$ > "$0" && exec "$@"'
    return guest.tierwised(config, within=["sh", "-c", enter, str(group.path / "cgroup.procs")])


def start_running(guest: Guest) -> Tierwised:
    """Starts the daemon without a tenant, as it is installed, and waits until it only waits."""
    daemon = start_daemon(guest, [], installed=True)
    time.sleep(RUNNING_S)
    return daemon


def add_tenant(daemon: Tierwised, group: Cgroup) -> None:
    """Makes a control group a tenant of a running daemon."""
    tenant = f'[[tenant]]\nname = "program"\ncgroup = "{group.name}"\n'
    daemon.reload(f"{daemon.config.read_text()}\n{tenant}")


def _cpu_weight() -> int:
    unit = Path(__file__).resolve().parents[1] / UNIT
    (weight,) = (
        line.partition("=")[2] for line in read(unit).splitlines() if line.startswith("CPUWeight=")
    )
    return int(weight)
