//! The learner: it acts, stores transitions, and trains at intervals.

use candle_core::{Device, Tensor, Var};
use candle_nn::{AdamW, Optimizer, ParamsAdamW};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

use super::critic::Twins;
use super::mlp::{Mlp, column, number};
use super::policy::{actor_shapes, gaussian_of};
use super::replay::{Replay, usable};
use super::{Losses, STATE, SacConfig, SacError, Transition};

/// A Soft Actor-Critic learner of one action from three numbers; see the [module](super).
pub struct Sac {
    pub(super) config: SacConfig,
    pub(super) actor: Mlp,
    pub(super) critics: Twins,
    pub(super) targets: Twins,
    pub(super) log_temperature: Var,
    pub(super) actor_optimiser: AdamW,
    pub(super) critic_optimiser: AdamW,
    pub(super) temperature_optimiser: AdamW,
    pub(super) replay: Replay,
    pub(super) rng: ChaCha8Rng,
    new_transitions: usize,
    steps: u64,
    refused: u64,
    failed: u64,
}

/// The networks and the temperature: the content of a file.
pub(super) struct Networks {
    pub(super) actor: (Mlp, Vec<Var>),
    pub(super) critics: (Twins, Vec<Var>),
    pub(super) targets: Twins,
    pub(super) log_temperature: Var,
}

impl Networks {
    fn fresh(config: &SacConfig, rng: &mut ChaCha8Rng) -> Result<Self, SacError> {
        let actor = Mlp::fresh(actor_shapes(config.hidden), rng)?;
        let critics = Twins::fresh(config.hidden, rng)?;
        let targets = critics.0.copies()?;
        let log_temperature = config.initial_temperature.ln() as f32;
        let log_temperature = Var::from_vec(vec![log_temperature], 1, &Device::Cpu)?;
        Ok(Self { actor, critics, targets, log_temperature })
    }
}

/// Adam with the constants of Kingma and Ba (2015), which PyTorch and Stable-Baselines3 use too.
/// AdamW without weight decay is Adam.
fn adam(variables: Vec<Var>, learning_rate: f64) -> Result<AdamW, SacError> {
    let params =
        ParamsAdamW { lr: learning_rate, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.0 };
    Ok(AdamW::new(variables, params)?)
}

impl Sac {
    /// A learner with fresh weights drawn from `seed`.
    ///
    /// # Errors
    /// [`SacError::Config`] if a setting is out of range.
    pub fn new(config: &SacConfig, seed: u64) -> Result<Self, SacError> {
        config.validate()?;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let networks = Networks::fresh(config, &mut rng)?;
        Self::with_networks(config, networks, rng)
    }

    pub(super) fn with_networks(
        config: &SacConfig,
        networks: Networks,
        rng: ChaCha8Rng,
    ) -> Result<Self, SacError> {
        let rate = config.learning_rate;
        Ok(Self {
            actor: networks.actor.0,
            actor_optimiser: adam(networks.actor.1, rate)?,
            critics: networks.critics.0,
            critic_optimiser: adam(networks.critics.1, rate)?,
            targets: networks.targets,
            temperature_optimiser: adam(vec![networks.log_temperature.clone()], rate)?,
            log_temperature: networks.log_temperature,
            replay: Replay::new(config.replay_capacity),
            rng,
            config: config.clone(),
            new_transitions: 0,
            steps: 0,
            refused: 0,
            failed: 0,
        })
    }

    /// Returns a sampled action in -1..=1, for exploration. A state with a number that is not
    /// finite, or whose magnitude exceeds 1000, is counted as [refused](Self::refused). Its action
    /// is 0, "change nothing".
    pub fn act(&mut self, state: [f32; STATE]) -> f32 {
        if !usable(&state) {
            self.refused += 1;
            return 0.0;
        }
        let noise: f32 = self.rng.sample(StandardNormal);
        let Ok((mean, log_std)) = gaussian_of(&self.actor, state) else {
            self.failed += 1;
            return 0.0;
        };
        (mean + log_std.exp() * noise).tanh()
    }

    /// Returns the action in -1..=1 at the mean of the actor's Gaussian, for use and evaluation.
    /// Equal states give equal actions. The action of an unusable state is 0, "change nothing".
    pub fn act_mean(&self, state: [f32; STATE]) -> f32 {
        if !usable(&state) {
            return 0.0;
        }
        gaussian_of(&self.actor, state).map_or(0.0, |(mean, _)| mean.tanh())
    }

    /// Stores a transition. Returns true if a training was due ([`SacConfig::train_every`]) and was
    /// done.
    ///
    /// A transition with a number that is not finite, or with a state or reward whose magnitude
    /// exceeds 1000, is dropped and counted as [refused](Self::refused). An action outside -1..=1
    /// is clipped. A step that fails ends the training and is counted as [failed](Self::failed).
    pub fn store(&mut self, t: Transition) -> bool {
        if !self.replay.push(t) {
            self.refused += 1;
            return false;
        }
        self.new_transitions += 1;
        let due = self.new_transitions >= self.config.train_every;
        if !due || self.len() < self.config.warm_up {
            return false;
        }
        self.new_transitions = 0;
        for _ in 0..self.config.gradient_steps {
            if self.train_once().is_err() {
                self.failed += 1;
                return false;
            }
        }
        true
    }

    /// Takes one training step on one mini-batch. The critics move towards the soft Bellman target,
    /// the actor towards the critics, the temperature towards the target entropy, and the target
    /// critics towards the critics.
    ///
    /// # Errors
    /// [`SacError::TooFew`] if fewer transitions than a mini-batch are stored;
    /// [`SacError::Diverged`] if a loss is not finite, in which case the network it belongs to
    /// keeps its weights.
    pub fn train_once(&mut self) -> Result<Losses, SacError> {
        if self.len() < self.config.batch {
            return Err(SacError::TooFew { stored: self.len(), batch: self.config.batch });
        }
        let losses = self.step()?;
        self.steps += 1;
        Ok(losses)
    }

    /// Standard normal noise, one row per transition of a mini-batch.
    pub(super) fn noise(&mut self) -> candle_core::Result<Tensor> {
        column((0..self.config.batch).map(|_| self.rng.sample(StandardNormal)).collect())
    }

    /// The weight of entropy against reward (alpha).
    pub fn temperature(&self) -> f32 {
        number(self.log_temperature.as_tensor()).map_or(f32::NAN, f32::exp)
    }

    /// The settings.
    pub fn config(&self) -> &SacConfig {
        &self.config
    }

    /// Transitions in the replay buffer.
    pub fn len(&self) -> usize {
        self.replay.len()
    }

    /// True if no transition is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that the replay buffer takes.
    pub fn memory_bytes(&self) -> usize {
        self.replay.bytes()
    }

    /// Training steps taken.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// States and transitions that were dropped because a number was not finite or its magnitude
    /// exceeded 1000.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Trainings in [`Self::store`] that ended early, and actions that could not be computed.
    pub fn failed(&self) -> u64 {
        self.failed
    }
}
