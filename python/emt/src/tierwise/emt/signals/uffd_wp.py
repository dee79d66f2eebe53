"""uffd-wp: reports pages that are written, by asynchronous write protection (Linux 6.7).

Every use of a Python object changes its reference count and thereby writes its page. On a stock
interpreter this signal therefore detects at least the uses that the paper's growth counter detects.
"""

from .pages import PageSignal


class UffdWp(PageSignal):
    """The default signal."""

    name = "uffd-wp"
