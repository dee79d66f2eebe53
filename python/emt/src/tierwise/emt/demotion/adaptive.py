"""Adaptive lazy demotion: lazy unless slow pages are eager (section 6.2)."""

from .eager import Eager
from .lazy import Lazy

#: Chosen from profiles of six of the workloads of table 3 with half of their memory fast
#: (reproduction/bench/profile_t.py; docs/emt.md has the table), as section 6.2 does; the paper does
#: not give its value. Eagerness is a z-score times a share. This is the lowest value measured, so
#: demotion is nearly always eager, which was faster in five of the six. If little memory is fast,
#: lazy demotion is better in the paper: `demotion="lazy"`.
DEFAULT_T = -2.76


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
        """The patience of the rule that this eagerness chooses."""
        return (self._eager if eagerness > self.t else self._lazy).patience(eagerness)
