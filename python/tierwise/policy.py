"""Policies whose estimator is a Python function of arrays."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tierwise.model import Recipe, Values


class Pages(NamedTuple):
    """The pages that exist, one element each, and what was seen of them since the last call."""

    #: Virtual seconds since the start.
    seconds: float
    #: Numbers of the pages, ascending. A number is used again after its page was freed.
    page: NDArray[np.uint32]
    #: Tiers, the fastest is 0.
    tier: NDArray[np.uint8]
    #: Numbers of the tenants, in the scenario's order.
    tenant: NDArray[np.uint16]
    #: Sizes in base pages.
    base_pages: NDArray[np.uint32]
    #: Hardware samples.
    samples: NDArray[np.uint32]
    #: Reference bits, if the policy asks for them.
    referenced: NDArray[np.bool_]


#: Returns a score for each page. Those with the highest that fit are kept in fast memory; a score
#: of zero or less is never promoted.
Scores = Callable[[Pages], NDArray[np.float64]]


@dataclass(frozen=True, kw_only=True)
class PythonPolicy:
    """A policy whose estimator is a function; the other stages are Tierwise's own.

    ``start`` is called once per run and returns the function that scores pages, so that a run does
    not see the state of another::

        def decayed_counts():
            heat = np.zeros(0)

            def scores(pages):
                nonlocal heat
                heat = np.pad(heat, (0, pages.page.max(initial=0) + 1 - heat.size))
                heat *= 0.5
                heat[pages.page] += pages.samples
                return heat[pages.page]

            return scores

        policy = PythonPolicy(name="decayed", start=decayed_counts)

    The engine charges the signals that the function sees, as it does for every policy. The time
    that the function itself takes is not charged to the simulated machine.
    """

    name: str
    start: Callable[[], Scores]
    #: Virtual seconds between two calls.
    interval_s: float = 1.0
    #: Last-level misses per hardware sample; 0 for none. MEMTIS starts with 200.
    sample_period: int = 200
    #: Whether the function sees reference bits, for the cost of a scan.
    reference_bits: bool = False
    selector: Values = field(default_factory=lambda: {"algorithm": "threshold"})
    partitioner: Values | None = None

    def recipe(self) -> Recipe:
        """The recipe that has the function as its estimator."""
        return Recipe(
            name=self.name,
            estimator={"algorithm": "external"},
            partitioner=self.partitioner,
            selector=self.selector,
        )

    def estimator(self) -> tuple[Callable[..., bytes], float, int, bool]:
        """The estimator of one run, in the engine's form."""
        scores = self.start()

        def call(
            seconds: float,
            page: bytes,
            tier: bytes,
            tenant: bytes,
            base_pages: bytes,
            samples: bytes,
            referenced: bytes,
        ) -> bytes:
            pages = Pages(
                seconds,
                np.frombuffer(page, np.uint32),
                np.frombuffer(tier, np.uint8),
                np.frombuffer(tenant, np.uint16),
                np.frombuffer(base_pages, np.uint32),
                np.frombuffer(samples, np.uint32),
                np.frombuffer(referenced, np.bool_),
            )
            return np.asarray(scores(pages), np.float64).tobytes()

        return call, self.interval_s, self.sample_period, self.reference_bits
