"""Cooling: old hotness counts less with every interval (EMT, section 6.1, equation 1).

    SH_i = k * x + (1 - k) * SH_(i-1)

x is what the interval saw, k the weight of the present.

>>> cooled(8.0, 0.0)
4.0
>>> cooled(8.0, 16.0, k=0.25)
10.0
"""

#: The paper leaves k open. A half forgets what is five intervals old to 3 %, as MEMTIS's cooling by
#: halves does.
DEFAULT_K = 0.5


def cooled(before: float, seen: float, k: float = DEFAULT_K) -> float:
    """The hotness after an interval that saw `seen`.

    Raises:
        ValueError: k is no share.
    """
    if not 0.0 < k <= 1.0:
        raise ValueError(f"k is {k}; allowed: more than 0, at most 1")
    return k * seen + (1.0 - k) * before
