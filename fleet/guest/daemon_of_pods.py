"""The daemon beside a node's runtime, as a program of the guest."""

import json
import subprocess
from typing import Any

from kube import CRI, NRI, PATIENCE_S, Node
from tierguest import Guest
from tierguest.configuration import configuration
from tierguest.daemon import Tierwised

# An emulated program accesses each of its pages only some ten times a second. This longer sampling
# interval finds these accesses.
SAMPLING_MS = 50

CLASS = """
[[kubernetes.class]]
name = "default"
max_floor = "1GiB"
"""


def config(guest: Guest, *, nri: str = NRI, cri: str = "off", steer: bool = False) -> str:
    """Returns a configuration that makes every pod a tenant."""
    more = f'\n[kubernetes]\nnri = "{nri}"\n'
    if cri != "off":
        more += f'cri = "{cri}"\n'
    text = configuration(guest, more=more + CLASS, steer=steer)
    text = text.replace("sampling_ms = 10", f"sampling_ms = {SAMPLING_MS}")
    return text.replace("aggregation_ms = 200", f"aggregation_ms = {10 * SAMPLING_MS}")


def view(guest: Guest, socket: str = "") -> dict[str, Any]:
    """Returns the daemon's view; nothing while it does not answer."""
    socket = socket or str(guest.directory / "control.sock")
    command = ["tierwise", "status", "--json", "--socket", socket]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}
    return found


def tenants(guest: Guest) -> dict[str, dict[str, Any]]:
    """Returns the daemon's tenants by name."""
    return {row["name"]: row for row in view(guest).get("tenants", [])}


def told(guest: Guest, socket: str = "") -> str:
    """Describes what the daemon says of itself, for a failure's message."""
    found = view(guest, socket)
    rows = {row["name"]: row["because"] for row in found.get("tenants", [])}
    names = ("mode", "mode_reason", "monitoring", "uptime", "counters", "cost", "unavailable")
    notices = [notice["text"] for notice in found.get("notices", [])[-4:]]
    return json.dumps([{name: found.get(name) for name in names}, rows, notices])


def wait_for_tenants(guest: Guest, node: Node, daemon: Tierwised, within_s: float = 0) -> float:
    """Waits until the daemon's tenants are the node's pods. Returns the seconds that it took."""
    expected = {node.tenant(name) for name in node.pods}

    def same() -> bool:
        assert daemon.running(), f"tierwised ended: {daemon.printed()}"
        return set(tenants(guest)) == expected

    def saying() -> str:
        said = f"tenants {sorted(tenants(guest))}, pods {sorted(expected)}"
        return f"{said}; {node.describe()}; {daemon.printed()[-800:]}"

    return guest.wait_until(same, within_s or PATIENCE_S, saying, every_s=1)


__all__ = ["CRI", "NRI", "config", "tenants", "view", "wait_for_tenants"]
