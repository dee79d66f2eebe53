"""Eager demotion: a page may be demoted the first time that it is cold."""


class Eager:
    """Best where most of the resident set is fast (section 7.4).

    >>> Eager().patience(0.0)
    1
    """

    def patience(self, eagerness: float) -> int:
        """Returns 1, at any eagerness."""
        return 1
