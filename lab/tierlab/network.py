"""A network in which a guest reaches programs of its host that are named, and nothing else.

QEMU's user network gives it no address beyond the guest: it drops every packet to another address
than those of the named programs.
"""

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .errors import LabError

FORWARD = Path(__file__).with_name("forward.py")

# The network and the guest's address in it are QEMU's defaults.
PREFIX = "10.0.2."
GUEST = "10.0.2.15"


@dataclass(frozen=True)
class Network:
    """`programs` maps ADDRESS:PORT of the guest's network to ADDRESS:PORT or the path of a Unix
    socket of the host."""

    programs: Mapping[str, str]

    def arguments(self) -> list[str]:
        """Returns QEMU's arguments for the network and its device."""
        words = ["user", "id=net", "restrict=on"]
        for guest, host in self.programs.items():
            if not guest.startswith(PREFIX):
                raise LabError(f"network: {guest}: an address of the guest starts with {PREFIX}")
            command = shlex.join([sys.executable, str(FORWARD), host])
            # In QEMU's options a comma is written twice.
            words.append(f"guestfwd=tcp:{guest}-cmd:{command}".replace(",", ",,"))
        # Without a ROM: the guest's kernel is given to it.
        return [
            "-netdev",
            ",".join(words),
            "-device",
            "virtio-net-pci,netdev=net,romfile=,bus=pcie.0",
        ]
