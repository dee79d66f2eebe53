//! The deterministic actor as an [ONNX](https://onnx.ai/onnx/repo-docs/IR.html) file.
//!
//! The messages below are the part of ONNX's protobuf schema (`onnx.proto`) that the actor needs;
//! the numbers in the tags are the schema's field numbers.

use std::path::Path;

use candle_core::Tensor;
use prost::Message;

use super::weights::save;
use super::{STATE, Sac, SacError};

/// Version of the file format: 8 came with ONNX 1.11 (2022), and every current runtime reads it.
const IR_VERSION: i64 = 8;
/// Version of the operators: Gemm, Relu and Tanh are unchanged from 13 on (ONNX 1.8, 2020).
const OPERATOR_SET: i64 = 13;
/// `TensorProto.DataType.FLOAT`.
const FLOAT: i32 = 1;
/// `AttributeProto.AttributeType.INT`.
const INT: i32 = 2;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Model {
    #[prost(int64, optional, tag = "1")]
    pub(super) ir_version: Option<i64>,
    #[prost(string, optional, tag = "2")]
    pub(super) producer_name: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub(super) producer_version: Option<String>,
    #[prost(message, optional, tag = "7")]
    pub(super) graph: Option<Graph>,
    #[prost(message, repeated, tag = "8")]
    pub(super) operator_sets: Vec<OperatorSet>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OperatorSet {
    #[prost(string, optional, tag = "1")]
    pub(super) domain: Option<String>,
    #[prost(int64, optional, tag = "2")]
    pub(super) version: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Graph {
    #[prost(message, repeated, tag = "1")]
    pub(super) nodes: Vec<OnnxNode>,
    #[prost(string, optional, tag = "2")]
    pub(super) name: Option<String>,
    #[prost(message, repeated, tag = "5")]
    pub(super) initializers: Vec<Weights>,
    #[prost(message, repeated, tag = "11")]
    pub(super) inputs: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "12")]
    pub(super) outputs: Vec<ValueInfo>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OnnxNode {
    #[prost(string, repeated, tag = "1")]
    pub(super) inputs: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(super) outputs: Vec<String>,
    #[prost(string, optional, tag = "3")]
    pub(super) name: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub(super) operator: Option<String>,
    #[prost(message, repeated, tag = "5")]
    pub(super) attributes: Vec<Attribute>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Attribute {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(int64, optional, tag = "3")]
    pub(super) integer: Option<i64>,
    #[prost(int32, optional, tag = "20")]
    pub(super) kind: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Weights {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub(super) shape: Vec<i64>,
    #[prost(int32, optional, tag = "2")]
    pub(super) kind: Option<i32>,
    #[prost(float, repeated, tag = "4")]
    pub(super) numbers: Vec<f32>,
    #[prost(string, optional, tag = "8")]
    pub(super) name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ValueInfo {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub(super) kind: Option<ValueKind>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ValueKind {
    #[prost(message, optional, tag = "1")]
    pub(super) tensor: Option<TensorKind>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorKind {
    #[prost(int32, optional, tag = "1")]
    pub(super) element: Option<i32>,
    #[prost(message, optional, tag = "2")]
    pub(super) shape: Option<TensorShape>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorShape {
    #[prost(message, repeated, tag = "1")]
    pub(super) dimensions: Vec<Dimension>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Dimension {
    #[prost(int64, optional, tag = "1")]
    pub(super) size: Option<i64>,
    #[prost(string, optional, tag = "2")]
    pub(super) name: Option<String>,
}

/// A float tensor of shape `[N, columns]`.
fn value(name: &str, columns: i64) -> ValueInfo {
    let rows = Dimension { size: None, name: Some("N".into()) };
    let columns = Dimension { size: Some(columns), name: None };
    let shape = TensorShape { dimensions: vec![rows, columns] };
    let tensor = TensorKind { element: Some(FLOAT), shape: Some(shape) };
    ValueInfo { name: Some(name.into()), kind: Some(ValueKind { tensor: Some(tensor) }) }
}

fn weights(name: String, tensor: &Tensor) -> candle_core::Result<Weights> {
    Ok(Weights {
        shape: tensor.dims().iter().map(|&size| size as i64).collect(),
        kind: Some(FLOAT),
        numbers: tensor.flatten_all()?.to_vec1()?,
        name: Some(name),
    })
}

fn node(operator: &str, inputs: Vec<String>, output: &str, attributes: Vec<Attribute>) -> OnnxNode {
    OnnxNode {
        inputs,
        outputs: vec![output.into()],
        name: Some(format!("make_{output}")),
        operator: Some(operator.into()),
        attributes,
    }
}

/// The actor's layers. The last keeps only its first output, the Gaussian's mean.
fn graph(parts: &[(Tensor, Tensor)]) -> candle_core::Result<Graph> {
    let mut graph = Graph {
        nodes: Vec::new(),
        name: Some("actor".into()),
        initializers: Vec::new(),
        inputs: vec![value("state", STATE as i64)],
        outputs: vec![value("action", 1)],
    };
    let mut from = "state".to_string();
    for (index, (weight, bias)) in parts.iter().enumerate() {
        let last = index + 1 == parts.len();
        let outputs = if last { 1 } else { weight.dim(0)? };
        let names = [format!("{index}.weight"), format!("{index}.bias")];
        graph.initializers.push(weights(names[0].clone(), &weight.narrow(0, 0, outputs)?)?);
        graph.initializers.push(weights(names[1].clone(), &bias.narrow(0, 0, outputs)?)?);
        // The weights are [outputs, inputs].
        let transposed =
            Attribute { name: Some("transB".into()), integer: Some(1), kind: Some(INT) };
        let sum = format!("{index}.sum");
        let [weight, bias] = names;
        graph.nodes.push(node("Gemm", vec![from, weight, bias], &sum, vec![transposed]));
        let (operator, output) =
            if last { ("Tanh", "action".into()) } else { ("Relu", format!("{index}.relu")) };
        graph.nodes.push(node(operator, vec![sum], &output, Vec::new()));
        from = output;
    }
    Ok(graph)
}

impl Sac {
    /// The deterministic actor ([`Sac::act_mean`]) as an ONNX file: input `state` (float32,
    /// `[N, 3]`), output `action` (float32, `[N, 1]`, in -1..=1).
    ///
    /// # Errors
    /// [`SacError::Io`] if the file cannot be written.
    pub fn export_onnx(&self, path: impl AsRef<Path>) -> Result<(), SacError> {
        let model = Model {
            ir_version: Some(IR_VERSION),
            producer_name: Some("tierwise".into()),
            producer_version: Some(env!("CARGO_PKG_VERSION").into()),
            graph: Some(graph(&self.actor.parts())?),
            operator_sets: vec![OperatorSet {
                domain: Some(String::new()),
                version: Some(OPERATOR_SET),
            }],
        };
        save(path.as_ref(), &model.encode_to_vec())
    }
}
