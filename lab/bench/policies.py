"""The policies that place pages in the guest while a program runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tierguest import Guest
from tierguest.cgroup import Cgroup
from tierguest.files import write
from tierguest.program import Program
from tierguest.settings import NUMA_SCANNING

from .daemon import start_daemon
from .damos import end_damos, start_damos
from .memtierd import start_memtierd

# A scan period of 0.1 s instead of 1 s, because runs are short.
SCAN_PERIOD_MS = 100

# The result is the daemon, if there is one, whose CPU time is counted.
Start = Callable[[Guest, Cgroup, int], Program | None]


@dataclass(frozen=True)
class Policy:
    """A policy, by the functions that start and end it."""

    start: Start
    ballast: bool = True
    """True if the fast node is limited."""
    running: bool = False
    """True if the daemon already runs, without a tenant, when the program's work begins; the
    program's control group then becomes its tenant."""
    end: Callable[[], None] = lambda: None
    """Undoes the changes that outlive the run."""
    settings: Mapping[str, int] = field(default_factory=dict)
    """The kernel's settings that differ from its defaults, for the simulator."""


# The kernel's tiering as the bench runs it.
KERNEL_SETTINGS = {"scan_period_min_ms": SCAN_PERIOD_MS, "scan_delay_ms": SCAN_PERIOD_MS}


def _nothing(_: Guest, __: Cgroup, ___: int) -> None:
    return None


def _kernel_tiering(guest: Guest, _: Cgroup, __: int) -> None:
    guest.demotion(True)
    # This precedes the start of scanning: a thread may keep the period that it finds at its start.
    for name, value in KERNEL_SETTINGS.items():
        write(NUMA_SCANNING / name, value)
    guest.numa_balancing(2)


def _kernel_default(guest: Guest, _: Cgroup, __: int) -> None:
    guest.demotion(True)
    guest.numa_balancing(2)


def _tierwised(recipe: str, steer: bool = False) -> Start:
    def start(guest: Guest, group: Cgroup, _: int) -> Program:
        tenants = [("program", f"cgroup = '{group.name}'")]
        return start_daemon(guest, tenants, installed=steer, recipe=recipe, steer=steer)

    return start


def _memtierd(policy: str) -> Start:
    return lambda guest, group, _: start_memtierd(guest, group, policy)


POLICIES = {
    # The bound: all of the fast node is free.
    "all-fast": Policy(_nothing, ballast=False),
    "first-touch": Policy(_nothing),
    "kernel-tiering": Policy(_kernel_tiering, settings=KERNEL_SETTINGS),
    # The kernel's tiering switched on, with its default settings.
    "kernel-default": Policy(_kernel_default),
    "damon-migrate": Policy(start_damos, end=end_damos),
    # They run if the command line names the program.
    "memtierd-age": Policy(_memtierd("memtierd-age")),
    "memtierd-heat": Policy(_memtierd("memtierd-heat")),
    "multi-clock": Policy(_tierwised("multi-clock")),
    "memtis": Policy(_tierwised("memtis")),
    # The installed configuration: it steers the kernel's tiering, because the tenant has no limit.
    "tierwise": Policy(_tierwised("tierwise", steer=True)),
    # The same daemon, started before the program's work, as on a host that runs for long.
    "tierwise-running": Policy(_nothing, running=True),
    # The same recipe without steering: the daemon finds and moves pages itself.
    "tierwise-engine": Policy(_tierwised("tierwise")),
}
