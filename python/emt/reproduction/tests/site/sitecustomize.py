"""Tracks an interpreter by the reproduction's refdelta, if EMT_REPRODUCTION is set: for CPython's
own tests, the programs of which inherit the environment."""

import os
import sys

from tierwise.emt.support import in_sub_interpreter

if os.environ.get("EMT_REPRODUCTION") and not in_sub_interpreter():
    import emt_reproduction
    from tierwise.emt import EmtError, Settings

    try:
        emt_reproduction.start(
            "refdelta", settings=Settings(sample_interval=0.01, overhead_budget=1.0)
        )
    except EmtError as error:
        print(f"emt_reproduction: not tracking: {error}", file=sys.stderr)
