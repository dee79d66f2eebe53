//! The learner's refusals.

use candle_core::{Device, Tensor};

use super::control::live;
use crate::sac::{Sac, SacConfig, SacError, Transition};

const GOOD: Transition = Transition {
    state: [0.5, 0.7, 0.2],
    action: 0.1,
    reward: 0.5,
    next: [0.52, 0.72, 0.2],
    done: false,
};

/// Numbers that are not finite, or larger than any scaled number.
const BAD: [f32; 4] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30];

fn spoilt(number: f32) -> Vec<Transition> {
    let mut all: Vec<Transition> = (0..3)
        .flat_map(|place| {
            let (mut state, mut next) = (GOOD, GOOD);
            state.state[place] = number;
            next.next[place] = number;
            [state, next]
        })
        .collect();
    all.push(Transition { reward: number, ..GOOD });
    if !number.is_finite() {
        all.push(Transition { action: number, ..GOOD });
    }
    all
}

#[test]
fn non_finite_transitions_are_dropped_and_counted() {
    let mut learner = Sac::new(&SacConfig::default(), 1).unwrap();
    let spoilt: Vec<Transition> = BAD.into_iter().flat_map(spoilt).collect();
    for &transition in &spoilt {
        assert!(!learner.store(transition));
    }
    assert_eq!((learner.len(), learner.refused()), (0, spoilt.len() as u64));
}

#[test]
fn bad_transitions_change_no_weight() {
    let config = SacConfig { gradient_steps: 5, ..SacConfig::default() };
    let run = |spoil: bool| {
        let mut learner = Sac::new(&config, 1).unwrap();
        for _ in 0..120 {
            learner.store(GOOD);
            if spoil {
                learner.store(Transition { reward: f32::NAN, ..GOOD });
            }
        }
        assert_eq!(learner.steps(), 5);
        learner.to_bytes().unwrap()
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn non_finite_state_gets_zero_action() {
    let mut learner = Sac::new(&SacConfig::default(), 1).unwrap();
    for number in BAD {
        assert_eq!(learner.act([0.5, number, 0.5]), 0.0);
        assert_eq!(learner.act_mean([0.5, number, 0.5]), 0.0);
    }
    assert_eq!(learner.refused(), BAD.len() as u64);
}

#[test]
fn diverging_step_is_refused_and_undone() {
    let config = SacConfig::default();
    let mut bytes = Sac::new(&config, 1).unwrap().to_bytes().unwrap();
    // A critic so large that the square of its error exceeds f32.
    let mut tensors = candle_core::safetensors::load_buffer(&bytes, &Device::Cpu).unwrap();
    let huge = Tensor::full(1e25_f32, 1, &Device::Cpu).unwrap();
    tensors.insert("critic_1.2.bias".into(), huge);
    bytes = safetensors::serialize(&tensors, None).unwrap();
    let mut learner = Sac::from_bytes(&bytes, &config, 1).unwrap();
    live(&mut learner, 80);
    bytes = learner.to_bytes().unwrap();
    let error = learner.train_once().unwrap_err();
    assert!(matches!(error, SacError::Diverged { loss: "critic", .. }), "{error}");
    assert_eq!(learner.to_bytes().unwrap(), bytes);
    live(&mut learner, 40);
    assert_eq!((learner.steps(), learner.failed()), (0, 1));
}

#[test]
fn step_without_a_batch_is_refused() {
    let mut learner = Sac::new(&SacConfig::default(), 1).unwrap();
    live(&mut learner, 40);
    let error = learner.train_once().unwrap_err();
    assert!(matches!(error, SacError::TooFew { stored: 40, batch: 64 }), "{error}");
}

#[test]
fn training_starts_after_warm_up_then_periodically() {
    let config = SacConfig { gradient_steps: 1, ..SacConfig::default() };
    let mut learner = Sac::new(&config, 1).unwrap();
    let trained: Vec<usize> = (1..=220).filter(|_| learner.store(GOOD)).collect();
    assert_eq!(trained, [100, 150, 200]);
}

#[test]
fn buffer_keeps_the_newest_transitions() {
    let config = SacConfig { replay_capacity: 100, train_every: 1000, ..SacConfig::default() };
    let mut learner = Sac::new(&config, 1).unwrap();
    for _ in 0..250 {
        learner.store(GOOD);
    }
    assert_eq!(learner.len(), 100);
    assert!(learner.memory_bytes() < 128 * 40, "{}", learner.memory_bytes());
}

#[test]
fn settings_out_of_range_are_named() {
    let good = SacConfig::default();
    let bad = [
        ("state", SacConfig { state: 4, ..good.clone() }),
        ("hidden", SacConfig { hidden: 0, ..good.clone() }),
        ("discount", SacConfig { discount: 1.0, ..good.clone() }),
        ("tau", SacConfig { tau: 0.0, ..good.clone() }),
        ("learning_rate", SacConfig { learning_rate: f64::NAN, ..good.clone() }),
        ("target_entropy", SacConfig { target_entropy: f64::INFINITY, ..good.clone() }),
        ("initial_temperature", SacConfig { initial_temperature: 0.0, ..good.clone() }),
        ("batch", SacConfig { batch: 0, ..good.clone() }),
        ("train_every", SacConfig { train_every: 0, ..good.clone() }),
        ("gradient_steps", SacConfig { gradient_steps: 0, ..good.clone() }),
        ("warm_up", SacConfig { warm_up: 63, ..good.clone() }),
        ("replay_capacity", SacConfig { replay_capacity: 99, ..good }),
    ];
    for (name, config) in bad {
        match Sac::new(&config, 1).err() {
            Some(SacError::Config { key, .. }) => assert_eq!(key, name),
            other => panic!("{name}: {other:?}"),
        }
    }
}
