"""Configurations of `tierwised` for a guest.

An emulated CPU is some fifty times slower than a CPU for which the default budget of 1 % is meant,
and a test must end within a minute. Intervals are therefore short, and the budget is a whole CPU.
"""

from __future__ import annotations

import typing
from collections.abc import Sequence

if typing.TYPE_CHECKING:
    from .guest import Guest

TEMPLATE = """\
policy = "{policy}"
block = "256KiB"
state = "{directory}/state"

[monitor]
interval_ms = 500
{source_table}
[cpu]
budget_percent = {budget}
cap_percent = 300.0

[kernel]
release_damon = true
steer = {steer}

[control]
socket = "{directory}/control.sock"

[http]
listen = "{listen}"
{more}
"""

# Access monitoring sources for which these keys are valid; another source refuses them.
OF_DAMON = ("auto", "damon-vaddr", "damon-paddr", "hint-faults")
DAMON = """\
sampling_ms = 10
aggregation_ms = 200
"""


def configuration(
    guest: Guest,
    policy: str = "tierwise",
    tenants: Sequence[tuple[str, str]] = (),
    more: str = "",
    budget_percent: float = 100.0,
    listen: str = "off",
    source: str = "auto",
    steer: bool = False,
) -> str:
    """Returns the text of a configuration; tenants are names with further lines of their tables."""
    source_table = f'source = "{source}"\n' + (DAMON if source in OF_DAMON else "")
    text = TEMPLATE.format(
        policy=policy,
        directory=guest.directory,
        more=more,
        budget=budget_percent,
        listen=listen,
        source_table=source_table,
        steer=str(steer).lower(),
    )
    return text + "".join(f'\n[[tenant]]\nname = "{name}"\n{lines}\n' for name, lines in tenants)
