use tierwise_core::estimate::slowdown::Classifier;

use super::*;

const SHIPPED: &[u8] = include_bytes!("../../../../models/memstrata/slowdown-5.onnx");
const MANIFEST: &str = include_str!("../../../../models/memstrata/slowdown-5.json");

/// The numbers of the manifest's list of this name, row by row: scikit-learn's results for some
/// samples.
fn examples() -> Vec<Vec<f32>> {
    let from = MANIFEST.find("\"examples\"").unwrap();
    let numbers = MANIFEST[from..].split(|c: char| !(c.is_ascii_digit() || ".-+e".contains(c)));
    let numbers: Vec<f32> = numbers.filter_map(|n| n.parse().ok()).collect();
    numbers.chunks_exact(FEATURES.len() + 1).map(<[f32]>::to_vec).collect()
}

#[test]
fn shipped_forest_agrees_with_scikit_learn() {
    let forest = Forest::parse("shipped", SHIPPED).unwrap();
    assert_eq!((forest.roots.len(), forest.threshold()), (100, 0.05));
    let examples = examples();
    assert!(examples.len() >= 20);
    for row in examples {
        let (features, expected) = row.split_at(FEATURES.len());
        let features: Features = features.try_into().unwrap();
        let probability = forest.probability(&features);
        assert!((probability - expected[0]).abs() < 1e-4, "{row:?}: {probability}");
        assert_eq!(forest.is_outlier(&features), expected[0] > forest.cutoff, "{row:?}");
        assert_eq!(forest.strange(&features), None, "{row:?}");
    }
}

#[test]
fn inputs_beyond_training_are_reported() {
    let forest = Forest::parse("shipped", SHIPPED).unwrap();
    let inside = forest.bounds.map(|(low, high)| f32::midpoint(low, high));
    assert_eq!(forest.strange(&inside), None);
    for place in 0..FEATURES.len() {
        let (low, high) = forest.bounds[place];
        for value in [low - 1.0, high * 1.01 + 1.0, f32::NAN] {
            let mut features = inside;
            features[place] = value;
            assert_eq!(forest.strange(&features), Some(place), "{} {value}", FEATURES[place]);
        }
    }
}

fn refused(change: impl Fn(&mut Vec<u8>)) -> String {
    let mut bytes = SHIPPED.to_vec();
    change(&mut bytes);
    Forest::parse("broken.onnx", &bytes).unwrap_err().to_string()
}

fn replaced(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    let found: Vec<usize> =
        (0..=bytes.len() - from.len()).filter(|&at| bytes[at..].starts_with(from)).collect();
    assert!(!found.is_empty());
    found.into_iter().for_each(|at| bytes[at..at + to.len()].copy_from_slice(to));
}

#[test]
fn model_of_other_counters_is_refused() {
    let error = refused(|bytes| replaced(bytes, b"mpki,l3_miss_ns", b"ipki,l3_miss_ns"));
    assert_eq!(
        error,
        format!(
            "broken.onnx: it was trained on {}; the counters at hand are {}; train it again with \
             scripts/train_slowdown.py",
            feature_names().replacen("mpki", "ipki", 1),
            feature_names()
        )
    );
}

#[test]
fn model_without_bounds_is_refused() {
    let error = refused(|bytes| replaced(bytes, b"bounds", b"bonuds"));
    assert_eq!(
        error,
        "broken.onnx: its bounds are nothing; allowed: smallest and greatest value of each of 8 \
         features; train it again with scripts/train_slowdown.py"
    );
}

#[test]
fn broken_files_are_refused() {
    assert!(
        refused(|bytes| bytes.truncate(bytes.len() / 2)).starts_with("broken.onnx: no ONNX file")
    );
    let error =
        refused(|bytes| replaced(bytes, b"TreeEnsembleClassifier", b"TreeEnsembleRegressor_"));
    assert_eq!(error, "broken.onnx: found none or several TreeEnsembleClassifier; allowed: one");
    let error = refused(|bytes| replaced(bytes, b"BRANCH_LEQ", b"BRANCH_EQ_"));
    assert_eq!(error, "broken.onnx: a node's mode is BRANCH_EQ_; allowed: LEAF, BRANCH_LEQ");
    let error = refused(|bytes| replaced(bytes, b"nodes_values", b"nodes_valuez"));
    assert!(error.contains("has no nodes_values; export it"), "{error}");
}

#[test]
fn damage_to_any_byte_never_crashes() {
    // Every 97th byte, so that the damage reaches all parts of the file.
    for at in (0..SHIPPED.len()).step_by(97) {
        let mut bytes = SHIPPED.to_vec();
        bytes[at] ^= 0x5a;
        if let Ok(forest) = Forest::parse("damaged", &bytes) {
            forest.probability(&[1.0; FEATURES.len()]);
        }
    }
}
