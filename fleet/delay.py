"""Measures the delay that the daemon adds to the start of a container: `make fleet-bench`.

fleet/runtime makes the calls that containerd's CRI service makes for a pod with one container, from
RunPodSandbox to PostStartContainer, and adds up their times. The daemon is on a recorded machine.
"""

import contextlib
import json
import threading
from collections.abc import Iterator

from fleet.churn import Runtime
from fleet.machine import FleetTest, wait_for

# Starts of one run: the slowest hundredth are then forty.
STARTS = 4000

# The runs of a case. The table has the worst of them.
RUNS = 3

# Clients that ask for the daemon's view again and again, each a program of its own: with the
# runtime they are more than this machine's two CPUs.
CLIENTS = 3


class Place(FleetTest):
    """The directory of a run."""

    def runTest(self) -> None:
        """Does nothing: a run is no test."""


@contextlib.contextmanager
def asked(place: Place, clients: int) -> Iterator[None]:
    """Asks for the daemon's view all the time."""
    end = threading.Event()

    def ask() -> None:
        while not end.is_set():
            place.view()

    threads = [threading.Thread(target=ask) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        end.set()
        for thread in threads:
            thread.join()


def delays(with_daemon: bool, clients: int, pause: str) -> dict[str, float]:
    """Returns the delays of one run, in milliseconds."""
    place = Place()
    place.setUp()
    try:
        runtime = Runtime(place, "-pause", pause)
        if with_daemon:
            daemon = place.daemon()
            wait_for("the plugin", lambda: runtime.plugins() == 1, runtime.program, daemon)
        with asked(place, clients):
            done = runtime.ask(f"churn {STARTS}")
        if done["failed"]:
            raise AssertionError(f"{done['failed']} calls failed:\n{runtime.program.output()}")
        if with_daemon and runtime.plugins() != 1:
            raise AssertionError(f"the runtime has closed the connection:\n{daemon.output()}")
        found = done["delay"]
        assert isinstance(found, dict)
        return found
    finally:
        place.doCleanups()


def main() -> None:
    """Prints the table."""
    cases = [
        ("no daemon", False, 0, "0s"),
        ("no daemon, busy machine", False, CLIENTS, "0s"),
        ("a pod every 10 ms", True, 0, "10ms"),
        ("pods without a pause", True, 0, "0s"),
        ("pods without a pause, the view asked for all the time", True, CLIENTS, "0s"),
    ]
    print(f"{RUNS} runs of {STARTS} starts; the worst of each column, in milliseconds")
    for name, with_daemon, clients, pause in cases:
        runs = [delays(with_daemon, clients, pause) for _ in range(RUNS)]
        worst = {key: round(max(run[key] for run in runs), 3) for key in runs[0]}
        print(f"{name}: {json.dumps(worst)}", flush=True)


if __name__ == "__main__":
    main()
