"""The CPU time of the package's own import, which is a part of what it costs the program."""

import time

_BEGAN_S = time.thread_time()


def import_s() -> float:
    """Returns the seconds of CPU time since this module was imported, which is the package's
    first."""
    return time.thread_time() - _BEGAN_S
