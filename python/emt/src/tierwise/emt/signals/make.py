"""Creates the signal that the settings name."""

from collections.abc import Callable

from ..errors import Unavailable
from ..settings import Settings
from ..support import free_threaded
from .base import Signal
from .growth import Growth
from .marked_objects import MarkedObjects
from .pages import PageSignal
from .refdelta import Refdelta
from .uffd_rwp import UffdRwp
from .uffd_wp import UffdWp

_OF_PAGES: dict[str, type[PageSignal]] = {"uffd-wp": UffdWp, "uffd-rwp": UffdRwp}
_OF_OBJECTS: dict[str, Callable[[], Signal]] = {"refdelta": Refdelta, "growth": Growth}


def make_signal(settings: Settings) -> Signal:
    """Creates the signal.

    Raises:
        Unavailable: This kernel or interpreter does not support it; the text has the reason.
    """
    of_objects = settings.signal in _OF_OBJECTS
    if of_objects and free_threaded():
        raise Unavailable(
            f"{settings.signal}: a free-threaded interpreter has no pools of objects; only pages "
            "can be tracked (uffd-wp, uffd-rwp)"
        )
    if of_objects and settings.objects == "marking":
        return MarkedObjects(settings.signal, settings.representation)
    if settings.signal in _OF_PAGES:
        return _OF_PAGES[settings.signal](settings.overhead_budget, settings.sample_interval)
    return _OF_OBJECTS[settings.signal]()
