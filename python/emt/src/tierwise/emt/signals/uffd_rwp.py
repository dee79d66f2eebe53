"""uffd-rwp: reports pages that are read or written, by asynchronous read and write protection
(Linux 7.3)."""

from .pages import PageSignal


class UffdRwp(PageSignal):
    """Also reports memory that is only read: tables of dicts, buffers."""

    name = "uffd-rwp"

    def judged(self) -> None:
        """Returns None, all pages, because reads are reported too."""
