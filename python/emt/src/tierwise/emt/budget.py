"""Sets the amount of memory to sample, so that sampling costs no more than the user allows.

Cost is CPU time: that of the import and the start, of the tracking thread, and of the faults in the
program. It is compared with the CPU time of the program itself. There are two rules, one for the
pace and one for the sum:

- *Pace*: the number of pages protected in an interval follows what the last interval cost.
- *Sum*: if the cost of the whole run so far exceeds its budget, tracking pauses until the program
  has earned it.
"""

from typing import NamedTuple

from .policy.migration import MAX_MOVES
from .policy.moving import BATCH_PAGES

#: The part of the budget that is left for what is not counted: the cache lines that tracking
#: displaces, and its end. In the lab, where nothing could be gained, spending all of 2 % cost a
#: program 1.0 to 2.7 % of its CPU time.
RESERVE = 0.2
#: The part of the budget that is spent while no page is in slow memory and fast memory is free:
#: then there is nothing to gain, and tracking only has to be ready.
QUIET_SHARE = 0.25
#: The pace aims below what may be spent, so that the sum seldom causes a pause.
AIM = 0.7
#: Max change of the pace from one interval to the next: a larger change would follow noise.
MAX_RISE, MAX_FALL = 1.5, 0.4
#: Pages protected in an interval: one piece at least; at most 4 GiB.
MIN_PAGES, MAX_PAGES = 64, 1 << 20
#: Windows are halved while more pages than this share are touched in them, because then they do not
#: distinguish hot pages from each other, and doubled while fewer are.
MAX_TOUCHED, MIN_TOUCHED = 0.6, 0.3
#: The shortest window as a share of an interval: 8 ms at the default, beside which a wake-up costs
#: little.
MIN_WINDOW = 1 / 32
#: A run has no budget yet when it starts; the first intervals may borrow this many seconds of CPU
#: time.
CREDIT_S = 0.005
#: The shortest pause. A program that waits earns nothing, and ten wake-ups a second cost a thread
#: less than a thousandth of a CPU.
MIN_REST_S = 0.1
#: The least time of a page's move: 4 KiB at 40 GB/s. A clock too coarse to measure a round must not
#: make the next round unlimited.
MIN_PAGE_S = 1e-7


class Pace(NamedTuple):
    """The pace of an interval."""

    pages: int = MIN_PAGES
    window: float = 1.0
    """The share of the interval that a page is protected for."""

    @property
    def pages_per_window(self) -> int:
        """Pages to protect in each window."""
        return max(1, round(self.pages * self.window))


def first_pace(budget: float, interval_s: float, fault_s: float) -> Pace:
    """Returns the first pace: all pages count as touched, and half of the budget is a reserve.

    >>> first_pace(0.02, 0.25, 1e-6).pages
    2500
    """
    return Pace(min(MAX_PAGES, max(MIN_PAGES, round(budget * interval_s / fault_s / 2))))


def next_pace(pace: Pace, budget: float, cost_share: float, tested: int, touched: int) -> Pace:
    """Returns the pace after an interval with this cost to the program and this many tested pages.

    >>> next_pace(Pace(1000, 1.0), budget=0.02, cost_share=0.04, tested=1000, touched=500)
    Pace(pages=400, window=1.0)
    >>> next_pace(Pace(1000, 1.0), budget=0.02, cost_share=0.001, tested=1000, touched=900)
    Pace(pages=1500, window=0.5)
    """
    change = (
        MAX_RISE if cost_share <= 0 else min(MAX_RISE, max(MAX_FALL, AIM * budget / cost_share))
    )
    pages = min(MAX_PAGES, max(MIN_PAGES, round(pace.pages * change)))
    share = touched / tested if tested else 0.0
    window = pace.window
    if share > MAX_TOUCHED:
        window = max(MIN_WINDOW, window / 2)
    elif share < MIN_TOUCHED:
        window = min(1.0, window * 2)
    return Pace(pages, window)


class MovePace:
    """The number of pages that a round of migration moves each way, by the cost of earlier rounds.

    A page costs a microsecond or two on a quiet machine and a hundred times that on an emulated or
    a loaded one, so the first round assumes no cost and makes one call.

    >>> pace = MovePace()
    >>> pace.most(seconds=0.02)
    512
    >>> pace.moved(pages=500, seconds=0.05)
    >>> pace.most(seconds=0.02)
    200
    """

    def __init__(self) -> None:
        self._page_s = 0.0

    def most(self, seconds: float) -> int:
        """Returns the pages that this much CPU time pays for, at least one."""
        if self._page_s == 0.0:
            return BATCH_PAGES
        return min(MAX_MOVES, max(1, int(seconds / self._page_s)))

    def moved(self, pages: int, seconds: float) -> None:
        """Records a round that moved, or tried to move, this many pages; it gets half of the
        weight."""
        if pages:
            page_s = max(MIN_PAGE_S, seconds / pages)
            self._page_s = (self._page_s + page_s) / 2 if self._page_s else page_s


class Ledger:
    """The budget earned and spent; all in seconds of CPU time.

    >>> ledger = Ledger(budget=0.02)
    >>> ledger.add(program_s=1.0, spent_s=0.015)
    >>> ledger.overdrawn
    False
    >>> ledger.add(program_s=0.0, spent_s=0.015)
    >>> ledger.overdrawn, ledger.overhead
    (True, 0.03)
    >>> quiet = Ledger(budget=0.02)
    >>> quiet.share = QUIET_SHARE
    >>> quiet.add(program_s=1.0, spent_s=0.015)
    >>> quiet.overdrawn
    True
    """

    def __init__(self, budget: float) -> None:
        self._budget = budget
        self.share = 1.0
        """The part of the budget that may be spent now. What was not spent stays earned."""
        self.program_s = 0.0
        self.spent_s = 0.0

    def add(self, program_s: float, spent_s: float) -> None:
        """Records an interval: the program's own time without tracking's cost, and that cost."""
        self.program_s += max(0.0, program_s)
        self.spent_s += spent_s

    @property
    def overdrawn(self) -> bool:
        """Returns true if tracking pauses in the next interval."""
        return self._debt_s > 0.0

    def rest_s(self, interval_s: float) -> float:
        """Returns the length of a pause, in which a program that uses one CPU earns the debt; at
        most an interval.

        >>> ledger = Ledger(budget=0.02)
        >>> ledger.add(program_s=0.0, spent_s=0.025)
        >>> ledger.rest_s(0.25), round(ledger.rest_s(60.0), 3)
        (0.25, 1.25)
        """
        return min(interval_s, max(MIN_REST_S, self._debt_s / self._earns))

    @property
    def budget(self) -> float:
        """The budget of an interval now."""
        return self._budget * self.share

    @property
    def _earns(self) -> float:
        return self.budget * (1.0 - RESERVE)

    @property
    def _debt_s(self) -> float:
        return self.spent_s - self._earns * self.program_s - CREDIT_S

    @property
    def overhead(self) -> float:
        """The CPU time spent, as a share of the program's own time."""
        return self.spent_s / self.program_s if self.program_s > 0 else 0.0
