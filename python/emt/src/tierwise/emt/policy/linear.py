"""The linear model that makes a hotness of features (EMT, section 5.3: multiple linear regression).

The paper prefers it to polynomials, forests and perceptrons, because they predict hardly better
(table 2) and cost more for each object. The weights that ship, one set for each signal, are fitted
by bench/fit_models.py to what bench/record_samples.py recorded; docs/emt.md says of what, and has
the table.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .features import Features

SHIPPED = Path(__file__).parent.parent / "linear_model.json"

#: The order of the weights.
NAMES = ("median", "deviation", "nonzero", "small", "range")


@dataclass(frozen=True, slots=True)
class LinearModel:
    """hotness = intercept + sum of weight * feature; never below zero."""

    intercept: float
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.weights) != len(NAMES):
            raise ValueError(
                f"a model has {len(self.weights)} weights; allowed: one each for {', '.join(NAMES)}"
            )

    def hotness(self, features: Features) -> float:
        """The predicted hotness.

        >>> LinearModel(-1.0, (1.0, 0.0, 0.0, 0.0, 0.0)).hotness(Features(3.0, 9.0, 8, 0, 9))
        2.0
        """
        predicted = self.intercept
        for weight, value in zip(self.weights, features.vector(), strict=True):
            predicted += weight * value
        return max(0.0, predicted)

    @classmethod
    def shipped(cls, signal: str) -> "LinearModel":
        """Returns the package's model for a signal's count: "growth" or "refdelta"."""
        return cls.from_table(json.loads(SHIPPED.read_text(encoding="utf-8"))[signal])

    @classmethod
    def from_table(cls, table: Mapping[str, float]) -> "LinearModel":
        """A model from a table of weights by name.

        Raises:
            ValueError: A weight is missing, or there is one that is not known.
        """
        wanted = {"intercept", *NAMES}
        if set(table) != wanted:
            raise ValueError(f"a model with the weights {sorted(table)}; allowed: {sorted(wanted)}")
        return cls(float(table["intercept"]), tuple(float(table[name]) for name in NAMES))
