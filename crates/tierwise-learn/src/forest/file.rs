//! Reads a forest from ONNX's protobuf. The messages are the part of `onnx.proto` that it needs;
//! the numbers in the tags are the schema's.

use prost::Message;
use tierwise_core::estimate::slowdown::{FEATURES, LatencyFit};

use super::{Forest, LEAF, Node, feature_names};

/// The maximum number of nodes of a forest. A hundred trees of a thousand samples have fewer than a
/// million.
const MAX_NODES: usize = 1 << 24;

/// The error of a file that is no usable forest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {problem}")]
pub struct ForestError {
    /// The file's path.
    pub file: String,
    /// The value found, the values allowed, and the remedy.
    pub problem: String,
}

#[derive(Clone, PartialEq, Message)]
struct Model {
    #[prost(message, optional, tag = "7")]
    graph: Option<Graph>,
    #[prost(message, repeated, tag = "14")]
    metadata: Vec<Entry>,
}

#[derive(Clone, PartialEq, Message)]
struct Entry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct Graph {
    #[prost(message, repeated, tag = "1")]
    nodes: Vec<Operator>,
}

#[derive(Clone, PartialEq, Message)]
struct Operator {
    #[prost(string, tag = "4")]
    operator: String,
    #[prost(message, repeated, tag = "5")]
    attributes: Vec<Attribute>,
}

#[derive(Clone, PartialEq, Message)]
struct Attribute {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(bytes = "vec", tag = "4")]
    text: Vec<u8>,
    #[prost(float, repeated, tag = "7")]
    floats: Vec<f32>,
    #[prost(int64, repeated, tag = "8")]
    integers: Vec<i64>,
    #[prost(bytes = "vec", repeated, tag = "9")]
    texts: Vec<Vec<u8>>,
}

/// The lists of a `TreeEnsembleClassifier`.
struct Ensemble<'a>(&'a Operator);

impl Ensemble<'_> {
    fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.0.attributes.iter().find(|a| a.name == name)
    }

    fn integers(&self, name: &str) -> Result<&[i64], String> {
        let found = self.attribute(name).map(|a| &a.integers[..]);
        found.ok_or_else(|| format!("its classifier has no {name}; export it with skl2onnx"))
    }

    fn floats(&self, name: &str) -> Result<&[f32], String> {
        let found = self.attribute(name).map(|a| &a.floats[..]);
        found.ok_or_else(|| format!("its classifier has no {name}; export it with skl2onnx"))
    }

    fn texts(&self, name: &str) -> Result<&[Vec<u8>], String> {
        let found = self.attribute(name).map(|a| &a.texts[..]);
        found.ok_or_else(|| format!("its classifier has no {name}; export it with skl2onnx"))
    }
}

pub(super) fn read(file: &str, bytes: &[u8]) -> Result<Forest, ForestError> {
    forest(bytes).map_err(|problem| ForestError { file: file.to_owned(), problem })
}

fn forest(bytes: &[u8]) -> Result<Forest, String> {
    let model = Model::decode(bytes).map_err(|e| format!("no ONNX file: {e}"))?;
    let printed =
        |key: &str| model.metadata.iter().find(|e| e.key == key).map(|e| e.value.as_str());
    let features = printed("features").unwrap_or("nothing");
    if features != feature_names() {
        return Err(format!(
            "it was trained on {features}; the counters at hand are {}; train it again with \
             scripts/train_slowdown.py",
            feature_names()
        ));
    }
    let number = |key: &str| {
        let value = printed(key).and_then(|v| v.parse::<f64>().ok()).filter(|v| v.is_finite());
        value.ok_or_else(|| {
            let found = printed(key).unwrap_or("nothing");
            format!(
                "its {key} is {found}; allowed: a number; train it again with \
                     scripts/train_slowdown.py"
            )
        })
    };
    let fit = LatencyFit { intercept: number("intercept_ns")?, slope: number("slope_ns")? };
    let operators = model.graph.iter().flat_map(|graph| &graph.nodes);
    let mut ensembles = operators.filter(|o| o.operator == "TreeEnsembleClassifier").map(Ensemble);
    let (Some(ensemble), None) = (ensembles.next(), ensembles.next()) else {
        return Err("found none or several TreeEnsembleClassifier; allowed: one".to_owned());
    };
    let (nodes, roots) = trees(&ensemble)?;
    let bounds = bounds(printed("bounds").unwrap_or("nothing"))?;
    let (threshold, cutoff) = (number("threshold")?, number("cutoff")? as f32);
    Ok(Forest { nodes, roots, fit, threshold, cutoff, bounds })
}

/// Parses the bounds of the features: "smallest greatest" of each, with commas between them.
fn bounds(text: &str) -> Result<[(f32, f32); FEATURES.len()], String> {
    let pair = |text: &str| {
        let (low, high) = text.split_once(' ')?;
        let (low, high) = (low.parse::<f32>().ok()?, high.parse::<f32>().ok()?);
        (low <= high).then_some((low, high))
    };
    let pairs: Option<Vec<(f32, f32)>> = text.split(',').map(pair).collect();
    pairs.and_then(|pairs| pairs.try_into().ok()).ok_or_else(|| {
        format!(
            "its bounds are {text}; allowed: smallest and greatest value of each of {} features; \
             train it again with scripts/train_slowdown.py",
            FEATURES.len()
        )
    })
}

/// Returns all trees' nodes, and the index at which each tree starts.
fn trees(ensemble: &Ensemble<'_>) -> Result<(Vec<Node>, Vec<u32>), String> {
    let (trees, ids) = (ensemble.integers("nodes_treeids")?, ensemble.integers("nodes_nodeids")?);
    let features = ensemble.integers("nodes_featureids")?;
    let (values, modes) = (ensemble.floats("nodes_values")?, ensemble.texts("nodes_modes")?);
    let below = ensemble.integers("nodes_truenodeids")?;
    let above = ensemble.integers("nodes_falsenodeids")?;
    let count = trees.len();
    let lengths = [ids.len(), features.len(), values.len(), modes.len(), below.len(), above.len()];
    if count == 0 || count > MAX_NODES || lengths.iter().any(|&length| length != count) {
        return Err(format!(
            "its lists of nodes have {count} and {lengths:?} entries; allowed: as many in each"
        ));
    }
    let transform = ensemble.attribute("post_transform").map_or(&b"NONE"[..], |a| &a.text);
    if transform != b"NONE" {
        let found = String::from_utf8_lossy(transform);
        return Err(format!("its post_transform is {found}; allowed: NONE"));
    }
    let (mut nodes, mut roots) = (Vec::with_capacity(count), Vec::new());
    for i in 0..count {
        if i == 0 || trees[i] != trees[i - 1] {
            roots.push(i as u32);
        }
        let root = roots[roots.len() - 1] as usize;
        if ids[i] != (i - root) as i64 {
            return Err(format!(
                "node {} of tree {} does not stand in its order",
                ids[i], trees[i]
            ));
        }
        let branches = match &modes[i][..] {
            b"LEAF" => [LEAF; 2],
            b"BRANCH_LEQ" => [branch(below[i], i, root, count)?, branch(above[i], i, root, count)?],
            other => {
                let found = String::from_utf8_lossy(other);
                return Err(format!("a node's mode is {found}; allowed: LEAF, BRANCH_LEQ"));
            }
        };
        let feature = u8::try_from(features[i]).ok().filter(|&f| usize::from(f) < FEATURES.len());
        let feature = feature.ok_or_else(|| {
            format!("a node tests feature {}; allowed: 0 to {}", features[i], FEATURES.len() - 1)
        })?;
        let value = if branches[0] == LEAF { 0.0 } else { values[i] };
        nodes.push(Node { feature, value, branches });
    }
    weigh(ensemble, &mut nodes, &roots, trees)?;
    Ok((nodes, roots))
}

/// Returns the target of a branch, which must be a later node, so that every walk ends.
fn branch(to: i64, from: usize, root: usize, count: usize) -> Result<u32, String> {
    let to = usize::try_from(to).ok().and_then(|to| to.checked_add(root));
    let to = to.filter(|&to| to > from && to < count);
    to.map(|to| to as u32)
        .ok_or_else(|| format!("node {from} branches to no later node of its tree"))
}

/// Sets each leaf's weight to that of the second class. These weights add up to the probability.
fn weigh(
    ensemble: &Ensemble<'_>,
    nodes: &mut [Node],
    roots: &[u32],
    trees: &[i64],
) -> Result<(), String> {
    let (of, ids) = (ensemble.integers("class_treeids")?, ensemble.integers("class_nodeids")?);
    let (classes, weights) = (ensemble.integers("class_ids")?, ensemble.floats("class_weights")?);
    if [ids.len(), classes.len(), weights.len()].iter().any(|&length| length != of.len()) {
        return Err("its lists of leaves differ in length; export it with skl2onnx".to_owned());
    }
    // A classifier of two classes may list only one of them. That is the second class, under either
    // number.
    let only = classes.iter().all(|&class| class == classes[0]);
    for (((&tree, &id), &class), &weight) in of.iter().zip(ids).zip(classes).zip(weights) {
        if class != 1 && !only {
            continue;
        }
        let root = roots.iter().find(|&&root| trees[root as usize] == tree);
        let leaf = root.and_then(|&root| nodes.get_mut(usize::try_from(id).ok()? + root as usize));
        match leaf.filter(|leaf| leaf.branches[0] == LEAF) {
            Some(leaf) => leaf.value = weight,
            None => {
                return Err(format!("a weight is for node {id} of tree {tree}, which is no leaf"));
            }
        }
    }
    Ok(())
}
