//! The twin critics and the soft Bellman target.

use candle_core::{Result, Tensor, Var};
use rand_chacha::ChaCha8Rng;

use super::STATE;
use super::mlp::{LAYERS, Mlp, shapes};
use super::replay::Batch;

/// Two critics; the learner uses the smaller of their estimates (Haarnoja et al., section 5.2).
#[derive(Debug)]
pub(super) struct Twins(pub(super) [Mlp; 2]);

/// Shapes of a critic's layers: state and action in, Q out.
pub(super) fn critic_shapes(hidden: usize) -> [[usize; 2]; LAYERS] {
    shapes(STATE + 1, hidden, 1)
}

impl Twins {
    /// Trainable critics with fresh weights, and their variables.
    pub(super) fn fresh(hidden: usize, rng: &mut ChaCha8Rng) -> Result<(Self, Vec<Var>)> {
        let (first, mut variables) = Mlp::fresh(critic_shapes(hidden), rng)?;
        let (second, more) = Mlp::fresh(critic_shapes(hidden), rng)?;
        variables.extend(more);
        Ok((Self([first, second]), variables))
    }

    /// Copies of the critics that receive no gradient.
    pub(super) fn copies(&self) -> Result<Self> {
        Ok(Self([Mlp::fixed(&self.0[0].parts())?, Mlp::fixed(&self.0[1].parts())?]))
    }

    /// Weights and biases of both critics.
    pub(super) fn weights(&self) -> impl Iterator<Item = &Tensor> {
        self.0.iter().flat_map(Mlp::weights)
    }

    /// Both estimates, one column each.
    pub(super) fn both(&self, states: &Tensor, actions: &Tensor) -> Result<[Tensor; 2]> {
        let inputs = Tensor::cat(&[states, actions], 1)?;
        Ok([self.0[0].forward(&inputs)?, self.0[1].forward(&inputs)?])
    }

    /// The smaller of both estimates, a column.
    pub(super) fn smaller(&self, states: &Tensor, actions: &Tensor) -> Result<Tensor> {
        let [first, second] = self.both(states, actions)?;
        first.minimum(&second)
    }

    /// Moves the weights towards those of `others`, by the share `tau` of the distance.
    pub(super) fn follow(&mut self, others: &Self, tau: f64) -> Result<()> {
        self.0.iter_mut().zip(&others.0).try_for_each(|(mine, theirs)| mine.follow(theirs, tau))
    }
}

/// The soft Bellman target (Haarnoja et al., eq. 2, 3 and 5), a column:
/// `reward + discount * (1 - done) * (next_q - temperature * next_log_density)`.
pub(super) fn soft_target(
    batch: &Batch,
    next_q: &Tensor,
    next_log_density: &Tensor,
    discount: f64,
    temperature: f64,
) -> Result<Tensor> {
    let next_value = (next_q - next_log_density.affine(temperature, 0.0)?)?;
    &batch.rewards + (&batch.goes_on * next_value.affine(discount, 0.0)?)?
}
