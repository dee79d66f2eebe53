"""Runs tests in the guest: python3 -m tierguest KERNEL FOLDER NAME... prints a JSON line before and
after each test."""

import importlib
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from types import FrameType
from typing import TextIO

from .declare import Test, declared
from .guest import Guest

# A reason is one line of the report; the whole traceback goes to the console.
REASON_CHARACTERS = 500


class TookTooLong(BaseException):
    """The time limit of a test. It is not an Exception, so that a test that catches those does not
    catch it."""


def _time_over(number: int, frame: FrameType | None) -> None:
    raise TookTooLong


def _describe(error: BaseException, timeout_s: int) -> str:
    """Returns the reason of a failure, with the line of the test."""
    lines = traceback.extract_tb(error.__traceback__)
    in_tests = [entry for entry in lines if "/job/tests/" in entry.filename]
    place = f"{Path(in_tests[-1].filename).name}:{in_tests[-1].lineno}: " if in_tests else ""
    if isinstance(error, TookTooLong):
        return f"{place}did not end within its {timeout_s} s"
    kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
    printed = str(error) or (in_tests[-1].line if in_tests else "") or "no reason was given"
    return f"{place}{kind}{printed}"[:REASON_CHARACTERS]


def run(test: Test, kernel: str) -> dict[str, object]:
    """Runs one test and returns its report for the host."""
    began = time.monotonic()
    guest = Guest(kernel)
    reason = ""
    try:
        with guest:
            signal.alarm(test.timeout_s)
            try:
                test.on(kernel)(guest)
            finally:
                # The removal of the test's objects has no time limit.
                signal.alarm(0)
    except (Exception, TookTooLong) as error:
        reason = _describe(error, test.timeout_s)
        traceback.print_exc(file=sys.stdout)
    sys.stdout.flush()
    return {
        "test": test.name,
        "ok": not reason,
        "seconds": round(time.monotonic() - began, 2),
        "reason": reason,
        "figures": guest.figures,
    }


def main(words: list[str], events: TextIO) -> int:
    """Runs the named tests in the order of their declaration; status 1 if any failed."""
    kernel, directory, names = words[0], Path(words[1]), set(words[2:])
    sys.path.insert(0, str(directory))
    for file in sorted(directory.glob("*.py")):
        importlib.import_module(file.stem)
    signal.signal(signal.SIGALRM, _time_over)
    failed = False
    for test in declared():
        if test.name not in names:
            continue
        print(json.dumps({"start": test.name}), file=events, flush=True)
        print(f"lab: {test.name}", flush=True)
        result = run(test, kernel)
        failed |= not result["ok"]
        print(json.dumps(result), file=events, flush=True)
    return int(failed)


if __name__ == "__main__":
    with os.fdopen(int(os.environ["LAB_EVENTS"]), "w") as channel:
        sys.exit(main(sys.argv[1:], channel))
