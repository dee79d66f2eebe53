"""Runs programs of the host, and reports the output of a failed one."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from .errors import LabError

# Enough for a compiler's first error or apt's reason, and at most a screen.
TAIL_LINES = 25


def run(
    step: str,
    command: Sequence[str | Path],
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> str:
    """Runs a command and returns its output; a failure names the step, the command and its last
    lines."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    except FileNotFoundError as error:
        raise LabError(
            f"{step}: {words[0]} is not installed; on Debian, as root: scripts/setup.sh lab"
        ) from error
    if done.returncode != 0:
        tail = "\n  ".join(done.stdout.splitlines()[-TAIL_LINES:]) or "(no output)"
        raise LabError(
            f"{step}: `{' '.join(words)}` ended with status {done.returncode}:\n  {tail}"
        )
    return done.stdout
