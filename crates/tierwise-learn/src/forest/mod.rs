//! Random forests from ONNX files: the slowdown classifier of Memstrata (Zhong et al., OSDI 2024,
//! section 4.2).
//!
//! A forest that skl2onnx exports from scikit-learn without a ZipMap has one node, a
//! `TreeEnsembleClassifier` of the domain `ai.onnx.ml`. It holds all trees' nodes in parallel
//! lists. This module runs it itself: one of the runtimes for Rust is a shared library that must be
//! downloaded, and another runs this operator three hundred times slower.
//!
//! A tree's inner node sends a row to its true branch if the feature is not above the value. A leaf
//! adds its weight to the probability of the second class; the forest chooses that class if the sum
//! is above the file's cutoff.
//!
//! A tree answers for any input, also for one far from all that it was trained on: with the answer
//! of the last box on the way. The file therefore has the bounds of each feature in the training,
//! and the forest reports a feature beyond them ([`Classifier::strange`]).

mod file;

use tierwise_core::estimate::slowdown::{Classifier, FEATURES, Features, LatencyFit};

pub use file::ForestError;

/// The index of no node.
const LEAF: u32 = u32::MAX;

/// A node of a tree.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Node {
    /// The feature that is compared.
    feature: u8,
    /// The threshold of an inner node, or the probability that a leaf adds.
    value: f32,
    /// The child of rows whose feature is not above the value, and the child of the others;
    /// [`LEAF`] for a leaf.
    branches: [u32; 2],
}

/// A forest that distinguishes two classes.
#[derive(Debug, Clone, PartialEq)]
pub struct Forest {
    nodes: Vec<Node>,
    /// The first node of each tree.
    roots: Vec<u32>,
    fit: LatencyFit,
    threshold: f64,
    /// The probability above which a row belongs to the second class.
    cutoff: f32,
    /// Smallest and greatest value of each feature in the training.
    bounds: [(f32, f32); FEATURES.len()],
}

impl Forest {
    /// Reads the bytes of an ONNX file. `name` is for messages.
    ///
    /// # Errors
    /// The bytes are no such file, a tree is damaged, or the forest was trained on other features.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self, ForestError> {
        file::read(name, bytes)
    }

    /// The probability that a row belongs to the second class, 0 to 1.
    pub fn probability(&self, features: &Features) -> f32 {
        self.roots.iter().map(|&root| self.walk(root, features)).sum()
    }

    fn walk(&self, root: u32, features: &Features) -> f32 {
        let mut node = &self.nodes[root as usize];
        // Branches lead to later nodes only (checked when the file was read), so the loop ends.
        while node.branches[0] != LEAF {
            // No comparison with NaN holds: it takes the false branch, as in ONNX.
            let is_below = features[usize::from(node.feature)] <= node.value;
            node = &self.nodes[node.branches[usize::from(!is_below)] as usize];
        }
        node.value
    }

    /// The slowdown that the forest detects, as a share.
    pub fn threshold(&self) -> f64 {
        self.threshold
    }
}

impl Classifier for Forest {
    fn name(&self) -> &'static str {
        "the forest"
    }

    fn fit(&self) -> LatencyFit {
        self.fit
    }

    fn is_outlier(&self, features: &Features) -> bool {
        self.probability(features) > self.cutoff
    }

    fn strange(&self, features: &Features) -> Option<usize> {
        // Not a number is in no range.
        let is_known = |((low, high), value): (&(f32, f32), &f32)| (low..=high).contains(&value);
        self.bounds.iter().zip(features).position(|pair| !is_known(pair))
    }
}

/// The features' names, for messages.
fn feature_names() -> String {
    FEATURES.join(",")
}

#[cfg(test)]
mod tests;
