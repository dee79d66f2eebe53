"""Waits for events whose time the kernel sets."""

import time
from collections.abc import Callable

# Ten checks per second notice a change soon, and cost the guest little.
POLL_S = 0.1


def wait_until(
    condition: Callable[[], bool],
    within_s: float,
    saying: Callable[[], object] | str,
    every_s: float = POLL_S,
) -> float:
    """Returns the seconds until the condition held. Raises AssertionError with the text of `saying`
    if it does not hold in time."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > within_s:
            printed = saying() if callable(saying) else saying
            raise AssertionError(f"not within {within_s:.0f} s: {printed}")
        time.sleep(every_s)
    return time.monotonic() - began
