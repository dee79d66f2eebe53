"""The chart, rendered by helm."""

import json
import subprocess
import tempfile
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


def _helm(*words: str) -> str:
    command = [str(module("helm")), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused(done.stdout + done.stderr)
    return done.stdout
