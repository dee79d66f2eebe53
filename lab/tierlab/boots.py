"""The kinds of guest that tests name as their `boot`."""

from dataclasses import dataclass

from .errors import LabError
from .mode import Mode
from .topology import TOPOLOGIES, Topology


@dataclass(frozen=True)
class Boot:
    """A machine and its mode of time."""

    topology: Topology
    mode: Mode = Mode()


BOOTS = {
    "hmat": Boot(TOPOLOGIES["hmat"]),
    "flat": Boot(TOPOLOGIES["flat"]),
    "single": Boot(TOPOLOGIES["single"]),
    "cxl": Boot(TOPOLOGIES["cxl"]),
    "truth": Boot(TOPOLOGIES["hmat"], Mode(truth=True)),
    "timed": Boot(TOPOLOGIES["hmat"], Mode(timed=True)),
}


def boot(name: str, test: str) -> Boot:
    """Returns the boot of the name that a test requests."""
    if name not in BOOTS:
        raise LabError(
            f"{test}: boot {name!r} is not known; one of: {', '.join(BOOTS)} (lab/tierlab/boots.py)"
        )
    return BOOTS[name]
