"""Fits the models of the paper's table 2 to the samples of record_samples.py:
`fit_models.py FILE.csv...`. It needs scikit-learn (the extra [bench]).

It prints the table in Markdown for each signal in the files, and then the weights of its linear
model in the form of src/emt_reproduction/linear_model.json. Four fifths of each workload's objects
are for training and one fifth is for scoring (section 5.3). Each workload contributes the same
number of objects.
"""

from __future__ import annotations

import csv
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
from emt_reproduction.policy.features import SAMPLES, features
from emt_reproduction.policy.linear import NAMES
from sklearn.ensemble import RandomForestRegressor
from sklearn.feature_selection import RFE
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

SEED = 5
#: Labels are 0 to 1, and a page's hotness is the sum over its objects. A page with some sixty
#: objects that was touched in every window has a hotness of about a thousand, which is in the last
#: of ten buckets.
HOTTEST = 16.0
#: Features that remain after elimination; the paper does not give their number.
LEFT_BY_RFE = 3

Samples = dict[str, list[tuple[list[float], float]]]


def read(files: Sequence[Path]) -> dict[str, Samples]:
    """Reads features and labels, by signal and workload."""
    found: dict[str, Samples] = defaultdict(lambda: defaultdict(list))
    for file in files:
        with file.open(encoding="ascii", newline="") as lines:
            for workload, signal, *numbers in csv.reader(lines):
                changes = [int(number) for number in numbers[:SAMPLES]]
                found[signal][workload].append(
                    (list(features(changes).vector()), float(numbers[SAMPLES]))
                )
    return found


def models() -> dict[str, Any]:
    """The models of table 2 by their names there, with scikit-learn's default parameters where the
    paper gives none."""
    return {
        "MLR": LinearRegression(),
        "MLR + RFE": RFE(LinearRegression(), n_features_to_select=LEFT_BY_RFE),
        "Polynomial": make_pipeline(StandardScaler(), PolynomialFeatures(2), LinearRegression()),
        # With leaves of one object the forest would memorise the objects.
        "Random Forest": RandomForestRegressor(min_samples_leaf=20, random_state=SEED),
        "MLP": make_pipeline(
            StandardScaler(), MLPRegressor(early_stopping=True, random_state=SEED)
        ),
    }


def split(samples: Samples) -> tuple[Any, Any, Any, Any]:
    """Returns features for training and for scoring, then labels for training and for scoring."""
    fewest = min(len(lines) for lines in samples.values())
    parts = []
    for workload in sorted(samples):
        chosen = numpy.random.default_rng(SEED).permutation(len(samples[workload]))[:fewest]
        given = numpy.array([samples[workload][n][0] for n in chosen])
        label = numpy.array([samples[workload][n][1] for n in chosen])
        parts.append(train_test_split(given, label, test_size=0.2, random_state=SEED))
    joined = tuple(numpy.concatenate(part) for part in zip(*parts, strict=True))
    return joined  # type: ignore[return-value]


def scores(label: Any, predicted: Any) -> list[float]:
    """Returns the rows of table 2."""
    pearson = numpy.corrcoef(label, predicted)[0, 1] if numpy.std(predicted) > 0 else 0.0
    return [
        mean_squared_error(label, predicted),
        mean_absolute_error(label, predicted),
        r2_score(label, predicted),
        float(pearson),
    ]


def weights(model: Any) -> dict[str, float]:
    """Returns the weights of a linear model, in units of hotness."""
    table = {"intercept": model.intercept_, **dict(zip(NAMES, model.coef_, strict=True))}
    return {name: round(float(weight) * HOTTEST, 4) for name, weight in table.items()}


def main(files: Sequence[Path]) -> None:
    """Prints the tables and the weights."""
    for signal, samples in sorted(read(files).items()):
        given, given_scored, label, label_scored = split(samples)
        named = {name: model.fit(given, label) for name, model in models().items()}
        columns = [scores(label_scored, model.predict(given_scored)) for model in named.values()]
        print(
            f"{signal}: {', '.join(sorted(samples))}; {len(label)} objects learned from, "
            f"{len(label_scored)} scored\n"
        )
        print("| |", " | ".join(named), "|\n|---|" + "---|" * len(named))
        for row, name in enumerate(
            ("Mean squared error", "Mean absolute error", "R²", "Pearson correlation")
        ):
            print(f"| {name} |", " | ".join(f"{column[row]:.3f}" for column in columns), "|")
        print(f"\n{json.dumps({signal: weights(named['MLR'])})}\n")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: fit_models.py FILE.csv... (of record_samples.py)")
    main([Path(word) for word in sys.argv[1:]])
