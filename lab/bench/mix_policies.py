"""The policies of the SLO bench, in the guest."""

from collections.abc import Mapping

from tierguest import Guest
from tierguest.configuration import configuration
from tierguest.daemon import Tierwised

from .mix import BATCH, SERVICES
from .policies import BUDGET_PERCENT, INSTALLED, LEARNING

# Every daemon has this recipe; its budgets differ.
RECIPE = "tierwise"


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
    config = configuration(
        guest, RECIPE, _tenants(slos_us), budget_percent=BUDGET_PERCENT, steer=True
    )
    for line, other in (INSTALLED if installed else LEARNING).items():
        assert line in config, f"{line!r} is not in the configuration"
        config = config.replace(line, other)
    return guest.tierwised(config)


# Whether a daemon has the budget as it is installed.
DAEMONS = {"tierwise": False, "tierwise-installed": True}
