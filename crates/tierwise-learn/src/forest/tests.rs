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
    numbers.chunks_exact(6).map(<[f32]>::to_vec).collect()
}

#[test]
fn shipped_forest_agrees_with_scikit_learn() {
    let forest = Forest::parse("shipped", SHIPPED).unwrap();
    assert_eq!((forest.roots.len(), forest.threshold()), (100, 0.05));
    let examples = examples();
    assert!(examples.len() >= 20);
    for row in examples {
        let features: Features = row[..5].try_into().unwrap();
        let probability = forest.probability(&features);
        assert!((probability - row[5]).abs() < 1e-4, "{row:?}: {probability}");
        assert_eq!(forest.is_outlier(&features), row[5] > 0.5, "{row:?}");
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
        "broken.onnx: it was trained on ipki,l3_miss_ns,l2_miss_ns,dtlb_miss_ns,l2_mpki; the \
         counters at hand are mpki,l3_miss_ns,l2_miss_ns,dtlb_miss_ns,l2_mpki; train it again \
         with scripts/train_slowdown.py"
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
            forest.probability(&[1.0; 5]);
        }
    }
}
