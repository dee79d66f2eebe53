//! Tests that the learner learns.

use super::control::{best_reward, live, mean_reward};
use crate::sac::{Sac, SacConfig};

/// Settings that learn the small problem in seconds; the default learning rate alone needs three
/// times the transitions. The network is narrower and the steps are larger. The discount fits
/// decisions with an immediate effect. There is less exploration, because the reward drops sharply
/// beside its maximum.
fn quick() -> SacConfig {
    SacConfig {
        hidden: 32,
        discount: 0.8,
        tau: 0.02,
        learning_rate: 2e-3,
        target_entropy: -2.0,
        ..SacConfig::default()
    }
}

#[test]
fn learner_reaches_ninety_percent_on_unseen_loads() {
    let mut learner = Sac::new(&quick(), 1).unwrap();
    let judge = |learner: &Sac| mean_reward(|control| learner.act_mean(control.state()));
    let untrained = judge(&learner);
    live(&mut learner, 5000);
    let (trained, best) = (judge(&learner), best_reward());
    assert_eq!(learner.failed(), 0);
    assert!(untrained < 0.5 * best, "untrained {untrained} of {best}");
    assert!(trained >= 0.9 * best, "trained {trained} of {best}");
}
