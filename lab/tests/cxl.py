"""Tests of CXL memory, a type-3 device that QEMU emulates: it goes online and becomes a slower
tier."""

import json
from pathlib import Path

from tierguest import Guest, test
from tierguest.files import read

NODE = Path("/sys/devices/system/node/node2")
MODULES = ("cxl_acpi", "cxl_pci", "cxl_mem", "cxl_port", "dax_cxl", "kmem", "device_dax")


def _ensure_online(guest: Guest) -> None:
    if NODE.exists():
        return
    guest.run("modprobe", "-a", *MODULES)
    guest.wait_until(lambda: "mem0" in guest.run("cxl", "list", "-M"), 20, "cxl list shows no mem0")
    guest.run(
        "cxl",
        "create-region",
        "-m",
        "-d",
        "decoder0.0",
        "-w",
        "1",
        "-t",
        "ram",
        "mem0",
        within_s=90,
    )
    guest.wait_until(
        NODE.exists, 30, lambda: f"node 2 did not appear; daxctl: {guest.run('daxctl', 'list')}"
    )


@test(boot="cxl", timeout_s=240)
def a_region_becomes_a_slower_node(guest: Guest) -> None:
    """A volatile region of the device is a third node, in the slowest tier."""
    _ensure_online(guest)
    regions = json.loads(guest.run("cxl", "list", "-R"))
    assert regions[0]["size"] == 256 << 20, regions
    assert int(read("/sys/devices/system/node/node2/meminfo").splitlines()[0].split()[3]) > 0
    assert guest.memory_tiers()[0] == "0", guest.memory_tiers()
    assert "2" in guest.memory_tiers()[1:], guest.memory_tiers()
