"""Creates the signal that the settings name."""

from ..settings import Settings
from .pages import PageSignal
from .uffd_rwp import UffdRwp
from .uffd_wp import UffdWp

_SIGNALS: dict[str, type[PageSignal]] = {"uffd-wp": UffdWp, "uffd-rwp": UffdRwp}


def make_signal(settings: Settings) -> PageSignal:
    """Creates the signal.

    Raises:
        Unavailable: This kernel does not support it; the text has the reason.
    """
    return _SIGNALS[settings.signal](settings.overhead_budget, settings.sample_interval)
