"""Ranges of addresses, each from its first to before its end."""

from __future__ import annotations


def outside(start: int, end: int, own: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the parts of a range that are in no range of `own`.

    >>> outside(0, 10, [(2, 4), (6, 12)])
    [(0, 2), (4, 6)]
    """
    parts = [(start, end)]
    for low, high in own:
        parts = [
            piece
            for first, last in parts
            for piece in ((first, min(last, low)), (max(first, high), last))
            if piece[0] < piece[1]
        ]
    return parts
