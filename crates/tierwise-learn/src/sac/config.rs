//! The learner's settings, each with its source.

use super::SacError;

/// Numbers in a state: MTAT's usage ratio, access ratio and access count (section 3.2.1).
pub const STATE: usize = 3;

/// The widest hidden layer allowed: four times the 256 that Haarnoja et al. use for robots with
/// dozens of inputs. The time of a training step grows with the square of the width, so a larger
/// number is a mistake.
const WIDEST: usize = 1024;

/// Settings of a [`super::Sac`].
#[derive(Debug, Clone, PartialEq)]
pub struct SacConfig {
    /// Numbers in a state; only [`STATE`] is allowed, because it is the length of
    /// [`super::Transition::state`].
    pub state: usize,
    /// Neurons in each of a network's two hidden layers.
    pub hidden: usize,
    /// Weight of the next decision's reward relative to this one's (gamma), in `0..1`.
    pub discount: f64,
    /// Share of the distance that a target critic moves towards its critic at each step (tau):
    /// above 0, at most 1.
    pub tau: f64,
    /// Step size of the Adam optimisers of actor, critics and temperature.
    pub learning_rate: f64,
    /// Transitions in a mini-batch.
    pub batch: usize,
    /// Transitions that the replay buffer holds; a new one then overwrites the oldest.
    pub replay_capacity: usize,
    /// Entropy in nats at which the learned temperature keeps the actor.
    pub target_entropy: f64,
    /// Weight of entropy against reward (alpha) at the start, above 0.
    pub initial_temperature: f64,
    /// New transitions between two trainings.
    pub train_every: usize,
    /// Mini-batches in one training.
    pub gradient_steps: usize,
    /// Transitions before the first training.
    pub warm_up: usize,
}

impl Default for SacConfig {
    fn default() -> Self {
        Self {
            // MTAT, section 3.2.1.
            state: STATE,
            // Haarnoja et al. (table 1) use 256 for states of up to hundreds of numbers. Three
            // numbers and one action need less: 64 is the width Stable-Baselines3 gives PPO's
            // networks for small tasks, and a sixteenth of the arithmetic.
            hidden: 64,
            // Haarnoja et al., table 1; Stable-Baselines3's default.
            discount: 0.99,
            // Haarnoja et al., table 1; Stable-Baselines3's default.
            tau: 0.005,
            // Haarnoja et al., table 1; Stable-Baselines3's default.
            learning_rate: 3e-4,
            // MTAT does not publish its size. Haarnoja et al. use 256. A training has 50 new
            // transitions; a mini-batch of 64 has about as many, at a quarter of the time.
            batch: 64,
            // The papers' 1 000 000 would hold 11 days at one decision per second, with loads that
            // no longer occur. 100 000 hold the last 28 hours, a full daily cycle, in 3.6 MB.
            replay_capacity: 100_000,
            // Minus the number of actions: Haarnoja et al., table 1; Stable-Baselines3's "auto".
            target_entropy: -1.0,
            // Rewards are in -1..=1 (MTAT, eq. 2), so Stable-Baselines3's 1.0 would outweigh them
            // until learning has lowered it. Its documentation names 0.1 ("auto_0.1") for this
            // case.
            initial_temperature: 0.1,
            // MTAT, section 4: one training per 50 new transitions.
            train_every: 50,
            // One mini-batch per transition, as Haarnoja et al. (table 1, gradient steps) and
            // Stable-Baselines3 do, all at once after every 50 transitions.
            gradient_steps: 50,
            // Stable-Baselines3's `learning_starts`.
            warm_up: 100,
        }
    }
}

impl SacConfig {
    /// Refuses settings that the learner cannot work with.
    ///
    /// # Errors
    /// [`SacError::Config`] names the first wrong key, its value and the allowed values.
    pub fn validate(&self) -> Result<(), SacError> {
        let refuse =
            |key, found: String, allowed: String| Err(SacError::Config { key, found, allowed });
        if self.state != STATE {
            return refuse("state", self.state.to_string(), STATE.to_string());
        }
        if !(1..=WIDEST).contains(&self.hidden) {
            return refuse("hidden", self.hidden.to_string(), format!("1 to {WIDEST}"));
        }
        let part = |x: f64| x > 0.0 && x <= 1.0;
        let start = self.initial_temperature;
        let reals = [
            ("discount", self.discount, (0.0..1.0).contains(&self.discount), "0 up to, without, 1"),
            ("tau", self.tau, part(self.tau), "above 0, at most 1"),
            ("learning_rate", self.learning_rate, part(self.learning_rate), "above 0, at most 1"),
            (
                "target_entropy",
                self.target_entropy,
                self.target_entropy.is_finite(),
                "finite, in nats",
            ),
            ("initial_temperature", start, start > 0.0 && start.is_finite(), "above 0, finite"),
        ];
        for (key, value, good, allowed) in reals {
            if !good {
                return refuse(key, value.to_string(), allowed.to_string());
            }
        }
        let counts = [
            ("batch", self.batch, 1, ""),
            ("train_every", self.train_every, 1, ""),
            ("gradient_steps", self.gradient_steps, 1, ""),
            ("warm_up", self.warm_up, self.batch, " (batch)"),
            ("replay_capacity", self.replay_capacity, self.warm_up, " (warm_up)"),
        ];
        for (key, value, least, whose) in counts {
            if value < least {
                return refuse(key, value.to_string(), format!("at least {least}{whose}"));
            }
        }
        Ok(())
    }
}
