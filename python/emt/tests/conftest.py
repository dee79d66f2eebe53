"""Fixtures of the tests: a check that tracking is off after each test, and programs in their own
interpreters."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tierwise.emt as emt
from tierwise.emt.errors import NotTracking

#: Far above the time of any program, also on a shared machine: it ends programs that hang.
HANGS_AFTER_S = 600

Program = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(autouse=True)
def tracking_is_off_afterwards() -> Iterator[None]:
    """Checks that the test leaves neither tracking on nor a page protected."""
    yield
    try:
        emt.end()
    except NotTracking:
        return
    raise AssertionError("the test left tracking on")


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Runs Python text in its own interpreter and returns the result; `check=False` lets it
    fail."""

    def run(
        text: str, *words: str, check: bool = True, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "program.py"
        file.write_text(textwrap.dedent(text), encoding="utf-8")
        done = _to_its_end(
            [sys.executable, *words, str(file)],
            {**os.environ, "PYTHONFAULTHANDLER": "1", **environment},
            tmp_path,
        )
        if check:
            assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    return run


def _to_its_end(
    words: list[str], environment: dict[str, str], directory: Path
) -> subprocess.CompletedProcess[str]:
    """Runs a command. A command that hangs is aborted, and its interpreter then writes the stacks
    of all threads."""
    process = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=directory,
        start_new_session=True,
    )
    try:
        stdout, stderr = process.communicate(timeout=HANGS_AFTER_S)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        process.wait()
        # Its children, if there are any, keep its output open.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        stdout, stderr = process.communicate()
        raise AssertionError(f"still ran after {HANGS_AFTER_S} s\n{stdout}{stderr}") from None
    return subprocess.CompletedProcess(words, process.returncode, stdout, stderr)
