"""The hotness of a page from that of its objects (EMT, section 6, hotness representation)."""

from collections.abc import Callable, Sequence

from .averaged import averaged
from .interval_mode import interval_mode
from .median import median
from .summed import summed

Representation = Callable[[Sequence[float]], float]

#: Representations by their names in the settings. Summed is the paper's default.
REPRESENTATIONS: dict[str, Representation] = {
    "summed": summed,
    "median": median,
    "interval-mode": interval_mode,
    "averaged": averaged,
}
