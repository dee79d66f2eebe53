"""In the guest: python3 -m bench.floors KERNEL NUMBER POLICY... runs so many tenants with floors
under each policy and prints one JSON line per run."""

import sys

from .each_policy import each_policy
from .floors_run import one
from .run import settle


def main(words: list[str]) -> int:
    """Runs all policies, and returns the exit status."""
    kernel, number, *policies = words
    settle()
    return each_policy(
        kernel, policies, lambda guest, policy, spy: one(guest, int(number), policy, spy)
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
