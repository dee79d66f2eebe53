//! Weights in files.

use std::collections::HashMap;

use candle_core::{Device, Tensor};

use super::control::live;
use crate::sac::{Sac, SacConfig, SacError};

fn trained() -> (SacConfig, Sac) {
    let config = SacConfig { gradient_steps: 3, ..SacConfig::default() };
    let mut learner = Sac::new(&config, 5).unwrap();
    live(&mut learner, 100);
    (config, learner)
}

/// The learner's weights with one tensor replaced, or taken out.
fn with(tensor: &str, replaced: Option<Tensor>) -> Result<Sac, SacError> {
    let (config, learner) = trained();
    let bytes = learner.to_bytes().unwrap();
    let mut tensors: HashMap<String, Tensor> =
        candle_core::safetensors::load_buffer(&bytes, &Device::Cpu).unwrap();
    match replaced {
        Some(replaced) => tensors.insert(tensor.into(), replaced),
        None => tensors.remove(tensor),
    };
    Sac::from_bytes(&safetensors::serialize(&tensors, None).unwrap(), &config, 5)
}

fn message(result: Result<Sac, SacError>) -> String {
    result.err().map(|error| error.to_string()).unwrap()
}

#[test]
fn loaded_learner_keeps_weights_and_answers() {
    let (config, learner) = trained();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sac.safetensors");
    learner.save(&path).unwrap();
    let loaded = Sac::load(&path, &config, 5).unwrap();
    assert_eq!(loaded.to_bytes().unwrap(), learner.to_bytes().unwrap());
    assert_eq!(loaded.temperature().to_bits(), learner.temperature().to_bits());
    let state = [0.3, 0.5, 0.9];
    assert_eq!(loaded.act_mean(state).to_bits(), learner.act_mean(state).to_bits());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing left beside it");
}

#[test]
fn a_loaded_learner_goes_on_learning() {
    let (config, learner) = trained();
    let mut loaded = Sac::from_bytes(&learner.to_bytes().unwrap(), &config, 5).unwrap();
    assert_eq!(loaded.len(), 100);
    live(&mut loaded, 100);
    assert_eq!((loaded.len(), loaded.steps()), (200, 6), "it needs no new transitions to start");
    assert_ne!(loaded.to_bytes().unwrap(), learner.to_bytes().unwrap());
}

/// Adam without moments changes every weight that has a gradient by the learning rate in its first
/// step. About half of them have one here: the mean is half of the rate then.
#[test]
fn a_loaded_learner_takes_no_leap() {
    let (config, learner) = trained();
    let mut loaded = Sac::from_bytes(&learner.to_bytes().unwrap(), &config, 5).unwrap();
    let weights = |sac: &Sac| -> Vec<f32> {
        let all: Vec<Vec<f32>> = sac
            .actor
            .weights()
            .map(|weight| weight.flatten_all().unwrap().to_vec1().unwrap())
            .collect();
        all.concat()
    };
    let before = weights(&loaded);
    assert_eq!(before, weights(&learner), "it acts as the saved one did");
    loaded.train_once().unwrap();
    let after = weights(&loaded);
    let moved: f64 = before.iter().zip(&after).map(|(b, a)| f64::from((a - b).abs())).sum();
    let mean = moved / before.len() as f64;
    assert!(mean > 0.0 && mean < 0.3 * config.learning_rate, "{mean} for each weight");
}

#[test]
fn another_width_is_refused_with_both_shapes() {
    let (config, learner) = trained();
    let narrow = SacConfig { hidden: 32, ..config };
    let text = message(Sac::from_bytes(&learner.to_bytes().unwrap(), &narrow, 5));
    for part in ["bytes: tensor `actor.0.weight`", "[64, 3]", "[32, 3]", "`hidden`"] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
}

#[test]
fn a_missing_tensor_is_refused_by_name() {
    let text = message(with("critic_2.1.bias", None));
    assert!(text.contains("`critic_2.1.bias` is missing; expected: F32 of shape [64]"), "{text}");
}

#[test]
fn an_unknown_tensor_is_refused_by_name() {
    let number = Tensor::zeros(1, candle_core::DType::F32, &Device::Cpu).unwrap();
    let text = message(with("actor.3.bias", Some(number)));
    assert!(text.contains("`actor.3.bias` is unknown"), "{text}");
}

#[test]
fn non_finite_numbers_are_refused_by_place() {
    let spoilt = Tensor::new(&[0.0_f32, f32::NAN], &Device::Cpu).unwrap();
    let text = message(with("actor.2.bias", Some(spoilt)));
    assert!(text.contains("`actor.2.bias` is NaN at place 1"), "{text}");
}

#[test]
fn replay_keeps_order_and_is_checked() {
    let config = SacConfig { replay_capacity: 110, ..SacConfig::default() };
    let mut learner = Sac::new(&config, 5).unwrap();
    live(&mut learner, 150);
    let bytes = learner.to_bytes().unwrap();
    assert_eq!(Sac::from_bytes(&bytes, &config, 5).unwrap().to_bytes().unwrap(), bytes);
    let row = Tensor::new(&[[0.1_f32, 0.2, 0.3, 0.0, 5000.0, 0.1, 0.2, 0.3, 0.0]], &Device::Cpu);
    let text = message(with("replay", Some(row.unwrap())));
    assert!(text.contains("`replay` is a number in row 0 that is too large"), "{text}");
    let without = with("replay", None).unwrap();
    assert!(without.is_empty());
}

#[test]
fn numbers_of_another_type_are_refused() {
    let conflicts = Tensor::new(&[0.0_f64, 0.0], &Device::Cpu).unwrap();
    let text = message(with("actor.2.bias", Some(conflicts)));
    assert!(text.contains("is F64 of shape [2]; expected: F32 of shape [2]"), "{text}");
}

#[test]
fn non_model_file_is_refused_by_path() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("none");
    let config = SacConfig::default();
    let text = message(Sac::load(&path, &config, 1));
    assert!(text.contains(&path.display().to_string()), "{text}");
    std::fs::write(&path, "no tensors").unwrap();
    let text = message(Sac::load(&path, &config, 1));
    assert!(text.contains("not a safetensors file"), "{text}");
    let bytes = Sac::new(&config, 1).unwrap().to_bytes().unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    assert!(matches!(Sac::load(&path, &config, 1), Err(SacError::Format { .. })));
}
