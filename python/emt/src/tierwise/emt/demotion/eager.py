"""Eager demotion: the first time that a page is cold, it may go."""


class Eager:
    """Best where most of the resident set is fast (section 7.4).

    >>> Eager().patience(0.0)
    1
    """

    def patience(self, eagerness: float) -> int:
        """Once is enough."""
        return 1
