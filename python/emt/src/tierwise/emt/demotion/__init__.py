"""Rules for the demotion of cold pages (EMT, section 6.2).

A rule sets the number of samplings in a row that must find a page cold before its demotion.
"""

from typing import Protocol

from .adaptive import Adaptive
from .eager import Eager
from .lazy import Lazy


class Demotion(Protocol):
    """A demotion rule."""

    def patience(self, eagerness: float) -> int:
        """Number of samplings in a row that must find a page cold before it is demoted, at this
        eagerness."""


__all__ = ["Adaptive", "Demotion", "Eager", "Lazy"]
