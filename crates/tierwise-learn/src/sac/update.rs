//! One training step (Haarnoja et al., algorithm 1, section 5).

use candle_core::Tensor;
use candle_nn::{AdamW, Optimizer};

use super::critic::soft_target;
use super::mlp::number;
use super::policy::{gaussian, sample};
use super::replay::Batch;
use super::{Sac, SacError};

/// The losses of one training step, before the step was taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Losses {
    /// Half the squared error of each critic against the soft Bellman target, both added, mean over
    /// the mini-batch.
    pub critic: f32,
    /// `temperature * log density - Q`, mean over the mini-batch; falls as the actor improves.
    pub actor: f32,
    /// `-ln(temperature) * (log density + target entropy)`, mean over the mini-batch.
    pub temperature: f32,
    /// The actor's entropy in nats, mean over the mini-batch.
    pub entropy: f32,
}

/// Takes an optimiser's step that lowers a loss, unless the loss or a gradient is not finite: such
/// a number would stay in the optimiser's moments, and so in the weights, permanently.
fn descend<'a>(
    optimiser: &mut AdamW,
    mut weights: impl Iterator<Item = &'a Tensor>,
    loss: &Tensor,
    name: &'static str,
) -> Result<f32, SacError> {
    let value = number(loss)?;
    if !value.is_finite() {
        return Err(SacError::Diverged { loss: name, value });
    }
    let gradients = loss.backward()?;
    weights.try_for_each(|weight| {
        let Some(gradient) = gradients.get(weight) else { return Ok(()) };
        // A sum is not finite if one of its terms is not.
        let sum = number(&gradient.sum_all()?)?;
        if sum.is_finite() { Ok(()) } else { Err(SacError::Diverged { loss: name, value: sum }) }
    })?;
    optimiser.step(&gradients)?;
    Ok(value)
}

/// Steps after which a loaded learner's optimisers know its gradients: after 100 the mean of
/// squares, which forgets a thousandth in each, is that of 100 mini-batches.
const RECOVERY: usize = 100;

impl Sac {
    pub(super) fn step(&mut self) -> Result<Losses, SacError> {
        let losses = self.descend_all()?;
        self.targets.follow(&self.critics, self.config.tau)?;
        Ok(losses)
    }

    /// Computes the optimisers' moments again, which a file does not have: steps of no length on
    /// the replay buffer. Without moments, Adam's first steps change every weight by the learning
    /// rate, whatever its gradient, and unlearn what was trained.
    pub(super) fn recover_moments(&mut self) -> Result<(), SacError> {
        self.set_learning_rate(0.0);
        let recovered = (0..RECOVERY).try_for_each(|_| self.descend_all().map(drop));
        self.set_learning_rate(self.config.learning_rate);
        recovered
    }

    fn set_learning_rate(&mut self, rate: f64) {
        self.actor_optimiser.set_learning_rate(rate);
        self.critic_optimiser.set_learning_rate(rate);
        self.temperature_optimiser.set_learning_rate(rate);
    }

    fn descend_all(&mut self) -> Result<Losses, SacError> {
        let batch = self.replay.draw(self.config.batch, &mut self.rng)?;
        let temperature = f64::from(number(self.log_temperature.as_tensor())?).exp();
        let critic = self.step_critics(&batch, temperature)?;
        let (actor, log_density) = self.step_actor(&batch, temperature)?;
        let temperature = self.step_temperature(log_density)?;
        Ok(Losses { critic, actor, temperature, entropy: -log_density })
    }

    /// Steps the critics. Each one's loss is half its mean squared error to the soft Bellman target
    /// (eq. 5).
    fn step_critics(&mut self, batch: &Batch, temperature: f64) -> Result<f32, SacError> {
        let noise = self.noise()?;
        let (mean, log_std) = gaussian(&self.actor, &batch.next)?;
        let (actions, log_density) = sample(&mean.detach(), &log_std.detach(), &noise)?;
        let target = soft_target(
            batch,
            &self.targets.smaller(&batch.next, &actions)?,
            &log_density,
            self.config.discount,
            temperature,
        )?;
        let [first, second] = self.critics.both(&batch.states, &batch.actions)?;
        let errors = ((first - &target)?.sqr()? + (second - &target)?.sqr()?)?;
        let loss = errors.mean_all()?.affine(0.5, 0.0)?;
        descend(&mut self.critic_optimiser, self.critics.weights(), &loss, "critic")
    }

    /// Steps the actor. Its loss is temperature * log density - Q, through the sampled action (eq.
    /// 7 and 9). Returns the loss and the mean log density.
    fn step_actor(&mut self, batch: &Batch, temperature: f64) -> Result<(f32, f32), SacError> {
        let noise = self.noise()?;
        let (mean, log_std) = gaussian(&self.actor, &batch.states)?;
        let (actions, log_density) = sample(&mean, &log_std, &noise)?;
        let q = self.critics.smaller(&batch.states, &actions)?;
        let loss = (log_density.affine(temperature, 0.0)? - q)?.mean_all()?;
        let loss = descend(&mut self.actor_optimiser, self.actor.weights(), &loss, "actor")?;
        Ok((loss, number(&log_density.mean_all()?)?))
    }

    /// Raises the temperature while the actor's entropy is below the target, and lowers it while
    /// the entropy is above (eq. 18). As in Haarnoja et al.'s published implementation, the step
    /// changes the logarithm, so the temperature stays above 0.
    fn step_temperature(&mut self, log_density: f32) -> Result<f32, SacError> {
        let excess = f64::from(log_density) + self.config.target_entropy;
        let loss = self.log_temperature.affine(-excess, 0.0)?.sum_all()?;
        let weights = std::iter::once(self.log_temperature.as_tensor());
        descend(&mut self.temperature_optimiser, weights, &loss, "temperature")
    }
}
