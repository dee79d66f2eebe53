"""When a page that was found cold goes down (EMT, section 6.2).

A way of demotion answers one question: in how many samplings in a row must a page have been cold?
"""

from typing import Protocol

from .adaptive import Adaptive
from .eager import Eager
from .lazy import Lazy


class Demotion(Protocol):
    """A way of demotion."""

    def patience(self, eagerness: float) -> int:
        """How many samplings in a row a page must be cold before it goes, at this eagerness."""


__all__ = ["Adaptive", "Demotion", "Eager", "Lazy"]
