#!/usr/bin/env python3
"""Trains the classifier of slowdowns of a tenant above a threshold (Memstrata, section 4.2).

    scripts/train_slowdown.py --sample             samples again, then trains the model that ships
    scripts/train_slowdown.py --threshold 0.10     retrains it for another threshold

Reads models/memstrata/samples.csv.gz, which `--sample` writes on all CPUs, and writes
models/memstrata/slowdown-PERCENT.onnx with slowdown-PERCENT.json (data, seed, fit, results).
It needs libraries: `pip install numpy onnx scikit-learn skl2onnx`.

The test leaves one family of programs out (all graph kernels, all of Redis, ...) and asks about it
at numbers of misses in flight that the training has not either. The line, the bounds and the cutoff
of each test come from the other families alone. A sample outside the bounds is judged by the ratio,
as in the engine.
"""

import argparse
import csv
import gzip
import hashlib
import io
import json
import pathlib
import subprocess

import numpy
import sklearn
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType
from sklearn.ensemble import RandomForestClassifier

ROOT = pathlib.Path(__file__).resolve().parents[1]
DIRECTORY = ROOT / "models" / "memstrata"
# In the order of the engine (tierwise-core/src/estimate/slowdown.rs).
FEATURES = [
    "mpki",
    "l3_miss_ns",
    "l2_miss_ns",
    "dtlb_miss_ns",
    "l2_mpki",
    "memory_mpki",
    "misses_in_flight",
    "exposed_mpki",
]
EXPOSED = FEATURES.index("exposed_mpki")
# The engine's fallback, RatioOnly::MPKI.
RATIO_ONLY = 0.25
# The paper's number of trees.
TREES = 100
# Leaves of a tree: with 24 the families that are left out are judged no better, and the file is
# three times as large.
LEAVES = 8
# Misses in flight of the training; the samples have others between them, for the test.
TRAINED = [1.0, 2.0, 4.0, 8.0, 16.0]
# Share of the samples above the threshold that the cutoff may give up: a tenant that is judged fast
# too early stays slow, one that is judged slow too long has a little more memory than it needs.
# With a hundredth the few samples at the threshold decide, and many fast ones are called slow.
MISSED = 0.05
# Cutoffs that are tried. Half is the forest's own; below a twentieth the trees' noise decides.
CUTOFFS = [round(0.05 * step, 2) for step in range(10, 0, -1)]


def sampled(path):
    """Runs the simulator and writes the samples."""
    command = [
        "cargo",
        "run",
        "--release",
        "-p",
        "tierwise-sim",
        "--no-default-features",
        "--example",
        "slowdown_samples",
    ]
    run = subprocess.run(
        [*command, "scenarios/recorded"], cwd=ROOT, check=True, stdout=subprocess.PIPE
    )
    # Without a time in it the file is the same for the same samples.
    path.write_bytes(gzip.compress(run.stdout, mtime=0))


class Samples:
    """The samples of some programs, and what the counters say about them."""

    def __init__(self, rows, threshold):
        column = lambda name: numpy.array([float(row[name]) for row in rows])
        self.family = numpy.array([row["program"].split("-")[0] for row in rows])
        self.program = numpy.array([row["program"] for row in rows])
        self.ratio, self.latency = column("miss_ratio"), column("l3_miss_ns")
        self.requests = column("memory_requests")
        self.thousands = column("instructions") / 1000
        self.l2 = [column("l2_miss_ns"), column("dtlb_miss_ns"), column("l2_misses")]
        self.in_flight = column("misses_in_flight")
        self.slowdown = column("slowdown")
        self.mpki = self.ratio * self.requests / self.thousands
        self.is_slow = self.slowdown > 1 + threshold
        self.trained = numpy.isin(self.in_flight, TRAINED)

    def fitted(self, some):
        """Fits the line from miss ratio to L3 miss latency: slope and intercept."""
        slope, intercept = numpy.polyfit(self.ratio[some], self.latency[some], 1)
        return slope, intercept

    def features(self, line):
        """The features that the engine computes from the same counters."""
        slope, intercept = line
        misses = numpy.clip((self.latency - intercept) / slope, 0, 1) * self.requests
        mpki = misses / self.thousands
        in_flight = numpy.maximum(self.in_flight, 1)
        columns = [
            mpki,
            self.latency,
            self.l2[0],
            self.l2[1],
            self.l2[2] / self.thousands,
            self.requests / self.thousands,
            in_flight,
            mpki / in_flight,
        ]
        return numpy.stack(columns, axis=1).astype(numpy.float32)


class Model:
    """A forest with its line, its bounds and its cutoff."""

    def __init__(self, samples, some, seed):
        self.line = samples.fitted(some)
        x = samples.features(self.line)[some]
        self.bounds = list(zip(x.min(axis=0), x.max(axis=0)))
        self.forest = RandomForestClassifier(
            n_estimators=TREES, max_leaf_nodes=LEAVES, random_state=seed, n_jobs=1
        ).fit(x, samples.is_slow[some].astype(numpy.int64))
        self.cutoff = 0.5

    def probability(self, samples, some):
        """The probability that each sample is slow; not a number outside the bounds."""
        x = samples.features(self.line)[some]
        probability = self.forest.predict_proba(x)[:, 1]
        low, high = numpy.array(self.bounds).T
        probability[((x < low) | (x > high)).any(axis=1)] = numpy.nan
        return probability

    def judged(self, samples, some):
        """Whether each sample is slow, and whether the forest said so."""
        probability = self.probability(samples, some)
        strange = numpy.isnan(probability)
        by_ratio = samples.features(self.line)[some][:, EXPOSED] > RATIO_ONLY
        return numpy.where(strange, by_ratio, probability > self.cutoff), ~strange


def calibrated(samples, some, seed):
    """The greatest cutoff at which families that were left out are missed seldom enough."""
    slow = []
    for family in sorted(set(samples.family[some])):
        rest, left_out = some & (samples.family != family), some & (samples.family == family)
        probability = Model(samples, rest, seed).probability(samples, left_out)
        slow.append(probability[samples.is_slow[left_out] & ~numpy.isnan(probability)])
    slow = numpy.concatenate(slow)
    good = [cutoff for cutoff in CUTOFFS if (slow <= cutoff).mean() <= MISSED]
    return good[0] if good else CUTOFFS[-1]


def result(found, by_forest, samples, some):
    """Counts of a judgement; the worst slowdown, in percent, that it calls none."""
    is_slow, slowdown = samples.is_slow[some], samples.slowdown[some]
    missed = slowdown[is_slow & ~found]
    return {
        "samples": int(some.sum()),
        "accuracy": round(float((found == is_slow).mean()), 4),
        "slow": int(is_slow.sum()),
        "missed": int(missed.size),
        "worst_missed_percent": round(float(missed.max() - 1) * 100, 1) if missed.size else None,
        "false_alarms": int((found & ~is_slow).sum()),
        "outside_the_bounds": int((~by_forest).sum()),
    }


def tested(samples, seed):
    """Each family left out, at misses in flight that were left out too; and MPKI alone."""
    families, all_found = {}, []
    for family in sorted(set(samples.family)):
        rest = samples.trained & (samples.family != family)
        unseen = ~samples.trained & (samples.family == family)
        model = Model(samples, rest, seed)
        model.cutoff = calibrated(samples, rest, seed)
        found, by_forest = model.judged(samples, unseen)
        families[family] = result(found, by_forest, samples, unseen) | {"cutoff": model.cutoff}
        # The ratio alone, as without a model.
        ratio = samples.features(model.line)[unseen][:, EXPOSED] > RATIO_ONLY
        families[family]["accuracy_of_the_ratio"] = round(
            float((ratio == samples.is_slow[unseen]).mean()), 4
        )
        all_found.append((found, by_forest, unseen, ratio))
    unseen = ~samples.trained
    found, by_forest, ratio = (numpy.zeros(len(unseen), dtype=bool) for _ in range(3))
    for some_found, some_forest, some, some_ratio in all_found:
        found[some], by_forest[some], ratio[some] = some_found, some_forest, some_ratio
    return families, {
        "all": result(found[unseen], by_forest[unseen], samples, unseen),
        "ratio_alone": result(ratio[unseen], by_forest[unseen], samples, unseen),
    }


def exported(model, threshold):
    """The model's bytes as ONNX, with what the engine needs beside the trees."""
    onnx = to_onnx(
        model.forest,
        initial_types=[("features", FloatTensorType([None, len(FEATURES)]))],
        options={id(model.forest): {"zipmap": False}},
        target_opset={"": 17, "ai.onnx.ml": 3},
    )
    slope, intercept = model.line
    printed = {
        "features": ",".join(FEATURES),
        "intercept_ns": repr(float(intercept)),
        "slope_ns": repr(float(slope)),
        "threshold": repr(threshold),
        "cutoff": repr(float(model.cutoff)),
        "bounds": ",".join(f"{float(low)!r} {float(high)!r}" for low, high in model.bounds),
    }
    for key, value in printed.items():
        entry = onnx.metadata_props.add()
        entry.key, entry.value = key, value
    return onnx.SerializeToString(), printed


def examples(model, samples, some):
    """Features and probabilities for a test that every implementation predicts the same."""
    x = samples.features(model.line)[some]
    x = x[:: max(1, len(x) // 20)]
    return [[*map(float, row), float(p)] for row, p in zip(x, model.forest.predict_proba(x)[:, 1])]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--threshold", type=float, default=0.05, help="slowdown, as a share (default 0.05)"
    )
    parser.add_argument("--sample", action="store_true", help="run the simulator first")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--samples", type=pathlib.Path, default=DIRECTORY / "samples.csv.gz")
    parser.add_argument("--out", type=pathlib.Path, default=DIRECTORY)
    arguments = parser.parse_args()
    if not 0 < arguments.threshold < 1:
        parser.error(f"--threshold: found {arguments.threshold}; allowed: above 0 and below 1")
    if arguments.sample:
        sampled(arguments.samples)

    data = arguments.samples.read_bytes()
    rows = list(csv.DictReader(io.StringIO(gzip.decompress(data).decode())))
    samples = Samples(rows, arguments.threshold)
    families, together = tested(samples, arguments.seed)
    model = Model(samples, samples.trained, arguments.seed)
    model.cutoff = calibrated(samples, samples.trained, arguments.seed)
    onnx, printed = exported(model, arguments.threshold)
    correlation = numpy.corrcoef(samples.ratio[samples.trained], samples.latency[samples.trained])
    by_mpki = numpy.corrcoef(samples.mpki[samples.trained], samples.slowdown[samples.trained])
    importance = dict(zip(FEATURES, model.forest.feature_importances_))
    manifest = {
        "threshold": arguments.threshold,
        "seed": arguments.seed,
        "trees": TREES,
        "leaves": LEAVES,
        "scikit-learn": sklearn.__version__,
        "samples": arguments.samples.name,
        "sha256": hashlib.sha256(data).hexdigest(),
        "programs": sorted(set(samples.program)),
        "misses_in_flight": {
            "trained": TRAINED,
            "tested": sorted(set(samples.in_flight[~samples.trained])),
        },
        "fit": {
            "intercept_ns": round(float(model.line[1]), 3),
            "slope_ns": round(float(model.line[0]), 3),
            "r_squared": round(float(correlation[0, 1] ** 2), 4),
            "mpki_r_squared": round(float(by_mpki[0, 1] ** 2), 4),
        },
        "cutoff": model.cutoff,
        "bounds": dict(zip(FEATURES, printed["bounds"].split(","))),
        "training": result(*model.judged(samples, samples.trained), samples, samples.trained),
        "families_left_out": families,
        "families_left_out_together": together,
        "importance": {name: round(float(share), 3) for name, share in importance.items()},
        "examples": examples(model, samples, samples.trained),
    }
    name = f"slowdown-{arguments.threshold * 100:g}"
    (arguments.out / f"{name}.onnx").write_bytes(onnx)
    (arguments.out / f"{name}.json").write_text(json.dumps(manifest, indent=1) + "\n")
    shown = ("fit", "cutoff", "training", "families_left_out", "families_left_out_together")
    print(json.dumps({key: manifest[key] for key in shown}, indent=1))


if __name__ == "__main__":
    main()
