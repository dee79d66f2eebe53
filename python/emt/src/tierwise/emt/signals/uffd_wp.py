"""uffd-wp: which pages are written, by asynchronous write protection (Linux 6.7).

Whoever uses a Python object changes its reference count and thereby writes its page; so on a stock
interpreter this sees at least what the paper's growth counter sees.
"""

from .pages import PageSignal


class UffdWp(PageSignal):
    """The default."""

    name = "uffd-wp"
