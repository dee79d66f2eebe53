//! Does it learn?

use super::control::{best_reward, live, mean_reward};
use crate::sac::{Sac, SacConfig};

/// Settings that learn the small problem in seconds; the defaults' learning rate alone takes three
/// times the transitions. A narrower network, larger steps, a discount that fits decisions whose
/// effect shows at once, and, as the reward falls off a cliff right beside its best place, less
/// exploration.
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
