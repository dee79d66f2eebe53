"""Configurations of `tierwised` for a guest.

An emulated processor is some fifty times slower than the one that the default budget of one in a hundred is meant for, and
a test wants to see an end within a minute: intervals are short and the budget is a whole processor.
"""

from __future__ import annotations

import typing
from collections.abc import Sequence

if typing.TYPE_CHECKING:
    from .guest import Guest

TEMPLATE = """\
policy = "{policy}"
block = "256KiB"
state = "{folder}/state"

[look]
interval_ms = 500
sampling_ms = 10
aggregation_ms = 200

[cpu]
budget_percent = {budget}
cap_percent = 300.0

[kernel]
release_damon = true

[control]
socket = "{folder}/control.sock"

[http]
listen = "{listen}"
{more}
"""


def configuration(
    guest: Guest,
    policy: str = "tierwise",
    tenants: Sequence[tuple[str, str]] = (),
    more: str = "",
    budget_percent: float = 100.0,
    listen: str = "off",
) -> str:
    """The text of a configuration; tenants are names, and further lines of their tables."""
    text = TEMPLATE.format(policy=policy, folder=guest.folder, more=more, budget=budget_percent, listen=listen)
    return text + "".join(f'\n[[tenant]]\nname = "{name}"\n{lines}\n' for name, lines in tenants)
