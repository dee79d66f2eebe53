"""growth: the paper's counter of changes in the upper half of ob_refcnt (section 5.2).

It needs an interpreter with this counter: growth/build.sh builds one. Such an interpreter refuses
extensions that were built with stock headers.
"""

from .pool_objects import PoolObjects


class Growth(PoolObjects):
    """Finds objects by pools."""

    def __init__(self) -> None:
        super().__init__("growth")
