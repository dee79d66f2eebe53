#!/usr/bin/env python3
"""Trains the classifier of slowdowns of a tenant above a threshold (Memstrata, section 4.2).

    scripts/train_slowdown.py                      trains the model that ships, for 5 %
    scripts/train_slowdown.py --threshold 0.10     retrains it for another threshold

Reads models/memstrata/samples.csv, which `cargo run --release -p tierwise-sim --example
slowdown_samples scenarios/recorded` writes, and writes models/memstrata/slowdown-PERCENT.onnx with
slowdown-PERCENT.json (data, seed, fit, confusion matrices). It needs libraries: `pip install numpy
onnx scikit-learn skl2onnx`.

The programs, not their samples, are divided into two halves, so that no program is used for both
training and validation.
"""

import argparse
import csv
import hashlib
import json
import pathlib
import random

import numpy
import sklearn
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import confusion_matrix

DIRECTORY = pathlib.Path(__file__).resolve().parents[1] / "models" / "memstrata"
# In the order of the engine (tierwise-core/src/estimate/slowdown.rs).
FEATURES = ["mpki", "l3_miss_ns", "l2_miss_ns", "dtlb_miss_ns", "l2_mpki"]
# The paper's number of trees.
TREES = 100


def halves(programs, seed):
    """Returns two halves of the programs; programs of one kind (a store, a graph kernel) are in
    both."""
    chance = random.Random(seed)
    train, kinds = set(), {}
    for program in sorted(programs):
        kinds.setdefault(program.split("-")[0], []).append(program)
    step = 0
    for kind in sorted(kinds):
        names = kinds[kind]
        chance.shuffle(names)
        for name in names:
            if step % 2 == 0:
                train.add(name)
            step += 1
    return sorted(train), sorted(set(programs) - train)


def fitted(rows):
    """Fits the line from miss ratio to L3 miss latency, and returns intercept, slope and r
    squared."""
    ratio = numpy.array([float(row["miss_ratio"]) for row in rows])
    latency = numpy.array([float(row["l3_miss_ns"]) for row in rows])
    slope, intercept = numpy.polyfit(ratio, latency, 1)
    return intercept, slope, numpy.corrcoef(ratio, latency)[0, 1] ** 2


def features(row, intercept, slope):
    """Returns the features that the engine computes from the same counters."""
    latency, thousands = float(row["l3_miss_ns"]), float(row["instructions"]) / 1000
    ratio = min(max((latency - intercept) / slope, 0.0), 1.0)
    return [
        ratio * float(row["memory_requests"]) / thousands,
        latency,
        float(row["l2_miss_ns"]),
        float(row["dtlb_miss_ns"]),
        float(row["l2_misses"]) / thousands,
    ]


def judged(printed, is_so):
    """Returns accuracy and confusion matrix: rows are the truth (no, yes), columns the
    prediction."""
    return {
        "samples": len(printed),
        "accuracy": round(float((printed == is_so).mean()), 4),
        "confusion": confusion_matrix(is_so, printed, labels=[0, 1]).tolist(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--threshold", type=float, default=0.05, help="slowdown, as a share (default 0.05)"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--samples", type=pathlib.Path, default=DIRECTORY / "samples.csv")
    parser.add_argument("--out", type=pathlib.Path, default=DIRECTORY)
    arguments = parser.parse_args()
    if not 0 < arguments.threshold < 1:
        parser.error(f"--threshold: found {arguments.threshold}; allowed: above 0 and below 1")

    with open(arguments.samples, newline="") as file:
        rows = list(csv.DictReader(file))
    train, test = halves({row["program"] for row in rows}, arguments.seed)
    of_train = [row for row in rows if row["program"] in train]
    of_test = [row for row in rows if row["program"] in test]
    intercept, slope, r_squared = fitted(of_train)

    def table(some):
        x = numpy.array([features(row, intercept, slope) for row in some], dtype=numpy.float32)
        y = numpy.array(
            [float(row["slowdown"]) > 1 + arguments.threshold for row in some], dtype=numpy.int64
        )
        return x, y

    (x, y), (unseen, is_so) = table(of_train), table(of_test)
    forest = RandomForestClassifier(n_estimators=TREES, random_state=arguments.seed).fit(x, y)
    alone = RandomForestClassifier(n_estimators=TREES, random_state=arguments.seed).fit(x[:, :1], y)
    model = to_onnx(
        forest,
        initial_types=[("features", FloatTensorType([None, len(FEATURES)]))],
        options={id(forest): {"zipmap": False}},
        target_opset={"": 17, "ai.onnx.ml": 3},
    )
    printed = {
        "features": ",".join(FEATURES),
        "intercept_ns": repr(float(intercept)),
        "slope_ns": repr(float(slope)),
        "threshold": repr(arguments.threshold),
    }
    for key, value in printed.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value

    name = f"slowdown-{arguments.threshold * 100:g}"
    manifest = {
        "threshold": arguments.threshold,
        "seed": arguments.seed,
        "trees": TREES,
        "scikit-learn": sklearn.__version__,
        "samples": arguments.samples.name,
        "sha256": hashlib.sha256(arguments.samples.read_bytes()).hexdigest(),
        "trained_on": train,
        "validated_on": test,
        "fit": {
            "intercept_ns": round(float(intercept), 3),
            "slope_ns": round(float(slope), 3),
            "r_squared": round(float(r_squared), 4),
        },
        "training": judged(forest.predict(x), y),
        "validation": judged(forest.predict(unseen), is_so),
        "validation_by_mpki_alone": judged(alone.predict(unseen[:, :1]), is_so),
        "importance": {
            f: round(float(i), 3) for f, i in zip(FEATURES, forest.feature_importances_)
        },
        # Examples for a test that every implementation of the forest predicts the same: features,
        # and the probability of an outlier.
        "examples": [
            [*map(float, row), float(p)]
            for row, p in zip(
                unseen[:: max(1, len(unseen) // 20)],
                forest.predict_proba(unseen[:: max(1, len(unseen) // 20)])[:, 1],
            )
        ],
    }
    (arguments.out / f"{name}.onnx").write_bytes(model.SerializeToString())
    (arguments.out / f"{name}.json").write_text(json.dumps(manifest, indent=1) + "\n")
    print(
        json.dumps(
            {k: manifest[k] for k in ("fit", "training", "validation", "validation_by_mpki_alone")},
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
