//! Tests that evaluate the exported actor.

use std::collections::HashMap;

use prost::Message;

use super::control::live;
use crate::sac::onnx::{Model, OnnxNode, Weights};
use crate::sac::{Sac, SacConfig};

/// Evaluates a node for one row.
fn work_out(node: &OnnxNode, values: &HashMap<String, Vec<f32>>, all: &[Weights]) -> Vec<f32> {
    let input = &values[&node.inputs[0]];
    let named = |index: usize| {
        all.iter().find(|weights| weights.name.as_ref() == Some(&node.inputs[index])).unwrap()
    };
    match node.operator.as_deref().unwrap() {
        "Relu" => input.iter().map(|number| number.max(0.0)).collect(),
        "Tanh" => input.iter().map(|number| number.tanh()).collect(),
        "Gemm" => {
            assert_eq!(node.attributes[0].name.as_deref(), Some("transB"));
            assert_eq!(node.attributes[0].integer, Some(1));
            let (weight, bias) = (named(1), named(2));
            assert_eq!(weight.shape, [bias.shape[0], input.len() as i64]);
            let rows = weight.numbers.chunks(input.len()).zip(&bias.numbers);
            rows.map(|(row, bias)| row.iter().zip(input).map(|(w, x)| w * x).sum::<f32>() + bias)
                .collect()
        }
        other => panic!("operator {other}"),
    }
}

#[test]
fn exported_actor_answers_like_the_learner() {
    let config = SacConfig { gradient_steps: 5, ..SacConfig::default() };
    let mut learner = Sac::new(&config, 2).unwrap();
    live(&mut learner, 200);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("actor.onnx");
    learner.export_onnx(&path).unwrap();
    let model = Model::decode(std::fs::read(&path).unwrap().as_slice()).unwrap();
    let graph = model.graph.unwrap();
    for index in 0..100 {
        let state = [0.0, 1.0, 2.0].map(|shift| ((index as f32) * 0.7 + shift).sin().abs());
        let mut values = HashMap::from([("state".to_string(), state.to_vec())]);
        for node in &graph.nodes {
            let output = work_out(node, &values, &graph.initializers);
            values.insert(node.outputs[0].clone(), output);
        }
        let [action] = values["action"][..] else { panic!("{:?}", values["action"]) };
        let expected = learner.act_mean(state);
        assert!((action - expected).abs() < 1e-5, "{action} instead of {expected}");
    }
}
