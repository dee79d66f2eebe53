"""Creates the signal that the settings name."""

from ..errors import Unavailable
from ..settings import Settings
from ..support import free_threaded
from .base import Signal
from .pages import PageSignal
from .uffd_rwp import UffdRwp
from .uffd_wp import UffdWp

_OF_PAGES: dict[str, type[PageSignal]] = {"uffd-wp": UffdWp, "uffd-rwp": UffdRwp}


def make_signal(settings: Settings) -> Signal:
    """Creates the signal.

    Raises:
        Unavailable: This kernel or interpreter does not support it; the text has the reason.
    """
    if settings.signal in _OF_PAGES:
        return _OF_PAGES[settings.signal](settings.overhead_budget, settings.sample_interval)
    if free_threaded():
        raise Unavailable(
            f"{settings.signal}: a free-threaded interpreter has no pools of objects; only pages "
            "can be tracked (uffd-wp, uffd-rwp)"
        )
    # Imported here: the signals of objects compute features and read a model, and the signals of
    # pages, which most programs use, need neither.
    if settings.objects == "marking":
        from .marked_objects import MarkedObjects

        return MarkedObjects(settings.signal, settings.representation)
    from .pool_objects import PoolObjects

    return PoolObjects(settings.signal)
