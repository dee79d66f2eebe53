"""All existing types, which distinguish an object from other memory."""

from __future__ import annotations


def all_types() -> dict[int, type]:
    """Returns all types by address, because a metaclass may define equality and hashes, which must
    not run here."""
    found: dict[int, type] = {id(object): object}
    waiting: list[type] = [object]
    while waiting:
        subclasses: list[type] = type.__subclasses__(waiting.pop())
        for subclass in subclasses:
            if id(subclass) not in found:
                found[id(subclass)] = subclass
                waiting.append(subclass)
    return found
