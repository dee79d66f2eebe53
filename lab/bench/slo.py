"""In the guest: python3 -m bench.slo KERNEL POLICY... runs the ramp under each policy and prints
one JSON line per run. The first policy is all-fast, from whose run the SLOs follow."""

import sys
from pathlib import Path
from typing import Any

from tierguest import Guest
from tierguest.files import write

from .each_policy import each_policy
from .mix import slo_us
from .mix_run import one
from .run import settle

HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled"


def main(words: list[str]) -> int:
    """Runs all policies, and returns the exit status."""
    kernel, *policies = words
    slos_us: dict[str, float] = {}

    def run(guest: Guest, policy: str, spy: Path | None) -> dict[str, Any]:
        figures = one(guest, policy, slos_us, spy)
        if not slos_us:
            services = figures["services"].items()
            slos_us.update({name: slo_us(steps) for name, steps in services})
        return {"slo_us": dict(slos_us), **figures}

    # khugepaged has the lowest priority and holds a program's memory while it copies. Memcached
    # stood still for seconds, and no longer does without it. Operators of stores switch it off.
    write(HUGE_PAGES, "never")
    settle()
    return each_policy(kernel, policies, run)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
