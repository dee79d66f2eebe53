"""The linear model that computes hotness from features (EMT, section 5.3: multiple linear
regression).

The paper prefers it to polynomials, forests and perceptrons, because these are hardly more accurate
(table 2) and cost more per object. bench/fit_models.py fitted the weights that ship, one set per
signal, to samples of bench/record_samples.py. docs/emt.md describes the samples and has the table.
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
        """Returns the predicted hotness.

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
            ValueError: A weight is missing, or one is unknown.
        """
        wanted = {"intercept", *NAMES}
        if set(table) != wanted:
            raise ValueError(f"a model with the weights {sorted(table)}; allowed: {sorted(wanted)}")
        return cls(float(table["intercept"]), tuple(float(table[name]) for name in NAMES))
