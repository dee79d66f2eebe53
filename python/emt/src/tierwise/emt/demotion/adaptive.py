"""Adaptive lazy demotion: lazy unless slow pages are eager (section 6.2)."""

from .eager import Eager
from .lazy import Lazy

#: Eagerness is a z-score times a share: above 0 the slow tier is used more than it lately was. `policy.choose_t` chooses another
#: from profiles, as section 6.2 does; the paper does not print its own.
DEFAULT_T = 0.0


class Adaptive:
    """Eager above the threshold T, else lazy.

    >>> adaptive = Adaptive(t=0.5)
    >>> adaptive.patience(0.4), adaptive.patience(0.6)
    (2, 1)
    """

    def __init__(self, t: float = DEFAULT_T) -> None:
        self.t = t
        self._eager = Eager()
        self._lazy = Lazy()

    def patience(self, eagerness: float) -> int:
        """Of the way that this eagerness chooses."""
        return (self._eager if eagerness > self.t else self._lazy).patience(eagerness)
