#!/usr/bin/env python3
"""Writes the chart's seccomp profile: packaging/helm/seccomp.py > .../files/seccomp.json.

It permits what `SystemCallFilter=` of packaging/tierwised.service permits. systemd knows the calls
of each set, so that this needs `systemd-analyze`; the calls of its version are in the file.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

# What the unit refuses by RestrictNamespaces=, which has no other form here.
REFUSED = {"setns", "unshare"}

UNIT = Path(__file__).resolve().parents[1] / "tierwised.service"


def permitted() -> list[str]:
    """Returns the words of the unit's filters."""
    lines = re.findall(r"^SystemCallFilter=(.*)$", UNIT.read_text(), re.MULTILINE)
    return [word for line in lines for word in line.split()]


def calls(word: str) -> set[str]:
    """Returns the calls of a word: a set's, or itself."""
    if not word.startswith("@"):
        return {word}
    command = ["systemd-analyze", "--no-pager", "syscall-filter", word]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^ +(@?[\w-]+)$", printed, re.MULTILINE)
    return set().union(*map(calls, found))


def profile() -> dict[str, object]:
    """Returns the profile in the form of the OCI runtime specification."""
    names = sorted(set().union(*map(calls, permitted())) - REFUSED)
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": 1,
        "architectures": ["SCMP_ARCH_X86_64"],
        "syscalls": [{"names": names, "action": "SCMP_ACT_ALLOW"}],
    }


if __name__ == "__main__":
    json.dump(profile(), sys.stdout, indent=1)
    print()
