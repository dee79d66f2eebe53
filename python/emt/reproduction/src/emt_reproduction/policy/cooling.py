"""Cooling: old hotness counts less with every interval (EMT, section 6.1, equation 1).

    SH_i = k * x + (1 - k) * SH_(i-1)

x is the interval's reading, k the weight of the present.

>>> cooled(8.0, 0.0)
4.0
>>> cooled(8.0, 16.0, k=0.25)
10.0
"""

#: The paper does not give k. With a half, five intervals reduce a value to 3 %, like MEMTIS's
#: cooling by halves.
DEFAULT_K = 0.5


def cooled(before: float, seen: float, k: float = DEFAULT_K) -> float:
    """Returns the hotness after an interval with the reading `seen`.

    Raises:
        ValueError: k is not a share above 0.
    """
    if not 0.0 < k <= 1.0:
        raise ValueError(f"k is {k}; allowed: more than 0, at most 1")
    return k * seen + (1.0 - k) * before
