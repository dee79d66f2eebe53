//! Tests that equal seeds make equal learners.

use super::control::live;
use crate::sac::{Sac, SacConfig};

/// Transitions for three trainings of few steps each, at 100, 150 and 200.
const LIVED: usize = 200;

fn lived(seed: u64) -> (Vec<u32>, Vec<u8>) {
    let config = SacConfig { gradient_steps: 10, ..SacConfig::default() };
    let mut learner = Sac::new(&config, seed).unwrap();
    live(&mut learner, LIVED);
    let actions = (0..20).map(|_| learner.act([0.5, 0.7, 0.2]).to_bits()).collect();
    assert_eq!(learner.steps(), 30, "trainings at 100, 150 and 200 transitions");
    (actions, learner.to_bytes().unwrap())
}

#[test]
fn equal_seeds_give_identical_bits() {
    assert_eq!(lived(7), lived(7));
}

#[test]
fn other_seeds_give_other_actions_and_weights() {
    let (first, second) = (lived(7), lived(8));
    assert_ne!(first.0, second.0);
    assert_ne!(first.1, second.1);
}

#[test]
fn the_middle_action_takes_no_randomness() {
    let mut learner = Sac::new(&SacConfig::default(), 3).unwrap();
    let state = [0.2, 0.4, 0.6];
    let middle = learner.act_mean(state);
    learner.act(state);
    assert_eq!(learner.act_mean(state).to_bits(), middle.to_bits());
    assert_ne!(learner.act(state).to_bits(), middle.to_bits());
}
