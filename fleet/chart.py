"""The chart, rendered by helm."""

import json
import re
import subprocess
import tempfile
import textwrap
from collections.abc import Mapping

from fleet.parts import REPOSITORY, module

CHART = REPOSITORY / "packaging" / "helm" / "tierwise"

# An image that no test pulls.
DIGEST = f"sha256:{'0' * 64}"


class Refused(Exception):
    """What helm says of values that it refuses."""


def rendered(values: Mapping[str, object], *words: str) -> str:
    """Returns what `helm template` makes of the chart with these values beside a digest.

    Raises Refused with helm's reasons.
    """
    given = values.get("image")
    image = given if isinstance(given, dict) else {}
    values = {**values, "image": {"digest": DIGEST, **image}}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(values, file)
        file.flush()
        return _helm("template", "t", str(CHART), "--values", file.name, *words)


def lint() -> str:
    """Returns what `helm lint` says; it fails for a mistake."""
    return _helm("lint", "--strict", str(CHART), "--set", f"image.digest={DIGEST}")


def documents(text: str) -> dict[str, str]:
    """Returns the documents of a rendered chart by kind; of one kind only the last."""
    parts = re.split(r"^---$", text, flags=re.MULTILINE)
    kinds = ((re.search(r"^kind: (\w+)$", part, re.MULTILINE), part) for part in parts)
    return {kind[1]: part for kind, part in kinds if kind}


def daemon_sets(text: str) -> dict[str, str]:
    """Returns the DaemonSets of a rendered chart by name."""
    parts = re.split(r"^---$", text, flags=re.MULTILINE)
    found = [part for part in parts if re.search(r"^kind: DaemonSet$", part, re.MULTILINE)]
    names = (re.search(r"^  name: (\S+)$", part, re.MULTILINE) for part in found)
    return {name[1]: part for name, part in zip(names, found) if name}


def configuration(text: str) -> str:
    """Returns the daemon's configuration in a rendered chart."""
    found = re.search(r"^  tierwised\.toml: \|\n((?:    .*\n|\n)+)", text, re.MULTILINE)
    assert found is not None
    return textwrap.dedent(found[1])


# What a pod of a directory cannot have, which no API server gives it: its name, how the chart has
# it, and the directory of the node that takes its place.
REPLACED = {
    "config": (r"projected:\n +sources:\n +- configMap:\n +name: t\n", "/etc/tierwise"),
    "token": (
        r"secret:\n +secretName: \S+\n +defaultMode: 0400\n +items:\n.*\n",
        "/etc/tierwise-token",
    ),
}


def static_pod(text: str) -> str:
    """Returns the daemon's pod of a rendered chart as a kubelet takes it from a directory. `@NAME@`
    and `@UID@` stand for its name and its number."""
    daemon = daemon_sets(text)["t"]
    template = textwrap.dedent(daemon.partition("\n  template:\n")[2])
    head = "metadata:\n  name: @NAME@\n  namespace: tierwise\n  uid: @UID@\n"
    pod = template.replace("metadata:\n", f"apiVersion: v1\nkind: Pod\n{head}", 1)
    for name, (pattern, path) in REPLACED.items():
        volume = f"hostPath: {{path: {path}, type: Directory}}\n"
        found = f"(- name: {name}\n +){pattern}"
        pod, count = re.subn(found, lambda match, volume=volume: match[1] + volume, pod)
        assert count == 1, f"{name}: {count} volumes in\n{pod}"
    return pod


def _helm(*words: str) -> str:
    command = [str(module("helm")), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused(done.stdout + done.stderr)
    return done.stdout
