"""The condition under which marking justifies its pause (EMT, section 5.1, figure 2)."""

#: Collections since the last marking that justify another. The paper skips at "only a few"; the
#: youngest generation is collected after some hundreds of new containers, so ten collections are
#: some thousands of new objects.
ENOUGH_COLLECTIONS = 10


def due(collections: int) -> bool:
    """Returns true if this many collections since the last marking require another.

    >>> due(3), due(10)
    (False, True)
    """
    return collections >= ENOUGH_COLLECTIONS
