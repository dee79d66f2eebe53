"""Runs the tests: boots guests, at most two at once, and reports the result of each test."""

import json
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace

from .boots import BOOTS
from .collect import TESTS, Group
from .guest import Guest, Outcome
from .job import Job
from .paths import Paths

# A guest uses one to two of the host's CPUs; the lab is designed for machines with two.
GUESTS_AT_ONCE = 2

# A temporarily busy host does not explain more failures than this.
MAX_AGAIN = 6


@dataclass
class Result:
    """The result of one test on one kernel."""

    kernel: str
    test: str
    ok: bool
    seconds: float
    """Seconds of the guest's clock."""
    reason: str = ""
    figures: dict[str, float | str] = field(default_factory=dict)
    absent: str = ""
    """The reason why this kernel cannot run the test; the result is then that of the assertion."""
    console: str = ""
    """The end of a failed test's console."""
    again: bool = False
    """True if it failed beside another guest; this is then the result in a guest that ran alone."""


class Report:
    """Prints a line per test as results come, from any thread."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.results: list[Result] = []
        self._lock = threading.Lock()

    def add(self, result: Result) -> None:
        """Prints and stores a result; a repetition's result replaces the first."""
        with self._lock:
            known = (result.kernel, result.test)
            self.results = [r for r in self.results if (r.kernel, r.test) != known] + [result]
            print(json.dumps(asdict(result)) if self.as_json else _line(result), flush=True)

    def print_line(self, text: str) -> None:
        """Prints a line that is not a result."""
        with self._lock:
            print(f"lab: {text}", file=sys.stderr, flush=True)


def _line(result: Result) -> str:
    figures = "  ".join(f"{name}={value}" for name, value in result.figures.items())
    verdict = "PASS" if result.ok else "FAIL"
    words = f"{result.kernel:5} {verdict} {result.seconds:7.1f} s  {result.test}"
    again = "  (alone in a second guest)" if result.again else ""
    absent = f"  (this kernel cannot: {result.absent}; asserted)" if result.absent else ""
    line = f"{words}{again}{absent}{'  ' + figures if figures else ''}"
    if result.ok:
        return line
    console = "\n".join(f"      | {text}" for text in result.console.splitlines())
    return f"{line}\n      {result.reason}\n{console}"


def run(paths: Paths, groups: Sequence[Group], report: Report) -> bool:
    """Runs all groups; true if every test passed.

    A few that failed run again, one guest at a time: emulated guests share the host's CPUs with
    each other and with the host's other work. A limit that a guest missed for that reason is no
    failure of Tierwise. Both runs are printed.
    """
    stop = threading.Event()
    _run_beside(paths, groups, report, stop)
    failed = {(result.kernel, result.test) for result in report.results if not result.ok}
    if len(failed) <= MAX_AGAIN:
        for group in groups:
            tests = tuple(test for test in group.tests if (group.kernel, test.name) in failed)
            if tests:
                _run_group(paths, replace(group, tests=tests), report, stop, again=True)
    return all(result.ok for result in report.results)


def _run_beside(
    paths: Paths, groups: Sequence[Group], report: Report, stop: threading.Event
) -> None:
    with ThreadPoolExecutor(GUESTS_AT_ONCE) as pool:
        futures = [pool.submit(_run_group, paths, group, report, stop) for group in groups]
        try:
            for future in futures:
                future.result()
        except BaseException:
            # After an interrupt, or if a guest cannot boot, running guests end and no other starts.
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _run_group(
    paths: Paths, group: Group, report: Report, stop: threading.Event, again: bool = False
) -> None:
    boot = BOOTS[group.boot]
    guest = Guest(paths, group.kernel, boot.topology, boot.mode)
    names = " ".join(f"'{test.name}'" for test in group.tests)
    command = (
        f"PYTHONPATH=/lab/python exec python3 -m tierguest {group.kernel} /lab/job/tests {names}"
    )
    running: list[str] = []
    results: dict[str, Result] = {}

    def on_event(line: str) -> None:
        reported = json.loads(line)
        if "start" in reported:
            running.append(reported["start"])
        else:
            results[reported["test"]] = Result(group.kernel, **reported)

    job = Job(command, files={"tests": TESTS})
    outcome = guest.run(job, group.timeout_s, on_event, stop=stop)
    if not running and outcome.exit_code is None and not stop.is_set():
        # Nothing of Tierwise has run: what failed is the boot, which a busy host can disturb.
        report.print_line(
            f"{group.name}: before its first test: {outcome.reason}; it boots once more. "
            f"The end of its console:\n{outcome.console_tail()}"
        )
        outcome = guest.run(job, group.timeout_s, on_event, stop=stop)
    if outcome.boot_s is not None:
        report.print_line(
            f"{group.name}: {outcome.release}, boot {outcome.boot_s:.1f} s, "
            f"{len(group.tests)} tests, "
            f"in all {outcome.wall_s:.1f} s"
        )
    for test in group.tests:
        result = results.get(test.name) or untold(group, test.name, running, outcome)
        absence = test.absences.get(group.kernel)
        result.absent = absence.reason if absence else ""
        result.again = again
        if not result.ok:
            result.console = outcome.console_tail()
        report.add(result)


def untold(group: Group, name: str, running: list[str], outcome: Outcome) -> Result:
    """Returns the result of a test that the guest did not report: it was running, or had not
    started."""
    reason = outcome.reason or f"the tests' program ended with status {outcome.exit_code}"
    if running and name == running[-1]:
        reason = f"while it ran: {reason}"
    else:
        reason = f"it did not run: {reason}"
    return Result(group.kernel, name, False, 0.0, reason)
