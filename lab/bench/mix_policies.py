"""The policies of the SLO bench, in the guest."""

from collections.abc import Mapping

from tierguest import Guest
from tierguest.daemon import Tierwised

from . import daemon
from .mix import BATCH, SERVICES


def _tenants(slos_us: Mapping[str, float]) -> list[tuple[str, str]]:
    services = [
        (
            service.name,
            f"cgroup = '{service.name}'\nclass = 'latency-critical'\n"
            f"slo_ms = {slos_us[service.name] / 1e3:.4f}",
        )
        for service in SERVICES
    ]
    return [*services, *((batch.name, f"cgroup = '{batch.name}'") for batch in BATCH)]


def start_daemon(guest: Guest, slos_us: Mapping[str, float], installed: bool) -> Tierwised:
    """Starts the daemon with the services' SLOs. As installed it may use 1 % of the CPU; otherwise
    ten times as much, because a run is a tenth as long as a program (bench/policies.py)."""
    return daemon.start_daemon(guest, _tenants(slos_us), installed)


# Whether a daemon has the budget as it is installed.
DAEMONS = {"tierwise": False, "tierwise-installed": True}
