"""Recorded traces as tables."""

import os
from typing import Literal

from tierwise import _tierwise
from tierwise.table import Table


def read_trace(
    path: str | os.PathLike[str], table: Literal["accesses", "windows", "pages"] = "accesses"
) -> Table:
    """Reads a table of a trace (``.twt``).

    ``accesses`` has a row per page and window in which the page was touched, ``windows`` a row per
    window, ``pages`` a row per page. ``address`` is the first address of the page; it is 0 for a
    page that only system calls reach (page cache). Numbers are unsigned, of 64 bits.

    Raises:
        FileNotFoundError: The file does not exist.
        TierwiseError: The file is no trace, or is damaged.
    """
    import numpy as np

    columns = _tierwise.read_trace(os.fspath(path), table)
    return Table(
        {
            name: np.frombuffer(column, np.uint64) if isinstance(column, bytes) else column
            for name, column in columns.items()
        }
    )
