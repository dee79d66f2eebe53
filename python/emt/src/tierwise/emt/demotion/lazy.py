"""Lazy demotion: a page must be cold in two samplings in a row, as in TPP."""

#: The paper's two consecutive samplings.
SAMPLINGS = 2


class Lazy:
    """Best where little of the resident set is fast (section 7.4).

    >>> Lazy().patience(9.0)
    2
    """

    def patience(self, eagerness: float) -> int:
        """Returns 2, at any eagerness."""
        return SAMPLINGS
