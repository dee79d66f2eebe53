//! Soft Actor-Critic: learns from tried actions and their rewards which action to take.
//!
//! The learner gets a *state* (three numbers), takes an *action* (one number in -1..=1), and gets
//! the *reward* and the next state. It has five small networks:
//!
//! - the **actor** gives a Gaussian over actions, squashed into -1..=1 by `tanh`;
//! - two **critics** estimate Q, the discounted reward that follows from an action; the learner
//!   uses the smaller of the two, because a single critic's estimate drifts upwards;
//! - two **target critics** follow the critics slowly and keep the regression target stable.
//!
//! The actor maximises reward and randomness (entropy), weighted by a *temperature*. The
//! temperature is learned too, so that exploration decreases as the actor becomes certain. The
//! algorithm is that of Haarnoja et al., "Soft Actor-Critic Algorithms and Applications" (2018,
//! arXiv:1812.05905), section 5 and algorithm 1. MTAT uses it to size a latency-critical tenant's
//! share of fast memory (section 3.2.1, algorithm 1), with one training per 50 new transitions
//! (section 4).
//!
//! All randomness comes from the seed: on one machine, equal seeds and equal transitions give equal
//! weights bit for bit. Between machines with different vector instructions (AVX2, AVX-512, NEON)
//! sums may round differently.
//!
//! ```
//! use tierwise_learn::sac::{Sac, SacConfig, Transition};
//!
//! let mut learner = Sac::new(&SacConfig::default(), 1)?;
//! let state = [0.5, 0.9, 0.3]; // usage ratio, access ratio, load
//! let action = learner.act(state);
//! assert!((-1.0..=1.0).contains(&action));
//!
//! let next = [0.6, 0.95, 0.3];
//! let trained = learner.store(Transition { state, action, reward: 0.5, next, done: false });
//! assert!(!trained, "one transition is too few to learn from");
//! # Ok::<(), tierwise_learn::sac::SacError>(())
//! ```

mod config;
mod critic;
mod error;
mod learner;
mod mlp;
mod onnx;
mod policy;
mod replay;
mod update;
mod weights;

#[cfg(test)]
mod tests;

pub use config::{STATE, SacConfig};
pub use error::SacError;
pub use learner::Sac;
pub use replay::Transition;
pub use update::Losses;
