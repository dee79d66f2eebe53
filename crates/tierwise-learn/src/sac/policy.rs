//! The actor: a Gaussian over actions, squashed by tanh.
//!
//! With the Gaussian's sample u = mean + std * noise and the action a = tanh(u), the density of a
//! is the Gaussian's divided by the slope of tanh (Haarnoja et al., appendix C):
//!
//! ```text
//! log pi(a|s) = log N(u; mean, std) - log(1 - tanh(u)^2)
//! ```
//!
//! `1 - tanh(u)^2` rounds to 0 from |u| = 9 on, so its logarithm is computed as
//! `2 (ln 2 - |u| - ln(1 + exp(-2 |u|)))`, which is equal and never infinite.

use std::f64::consts::{LN_2, PI};

use candle_core::{D, Device, Result, Tensor};

use super::STATE;
use super::mlp::{Mlp, shapes};

/// Bounds of the Gaussian's log standard deviation: Haarnoja et al.'s published implementation, and
/// Stable-Baselines3's `LOG_STD_MIN` and `LOG_STD_MAX`.
const LOG_STD: (f32, f32) = (-20.0, 2.0);

/// Shapes of the actor's layers; its two outputs are the mean and the log standard deviation.
pub(super) fn actor_shapes(hidden: usize) -> [[usize; 2]; super::mlp::LAYERS] {
    shapes(STATE, hidden, 2)
}

/// Mean and log standard deviation, a column each, for a batch of states.
pub(super) fn gaussian(actor: &Mlp, states: &Tensor) -> Result<(Tensor, Tensor)> {
    let outputs = actor.forward(states)?;
    let mean = outputs.narrow(D::Minus1, 0, 1)?;
    let log_std = outputs.narrow(D::Minus1, 1, 1)?.clamp(LOG_STD.0, LOG_STD.1)?;
    Ok((mean, log_std))
}

/// Mean and log standard deviation for one state.
pub(super) fn gaussian_of(actor: &Mlp, state: [f32; STATE]) -> Result<(f32, f32)> {
    let outputs = actor.forward(&Tensor::from_slice(&state, (1, STATE), &Device::Cpu)?)?;
    let outputs = outputs.flatten_all()?.to_vec1::<f32>()?;
    Ok((outputs[0], outputs[1].clamp(LOG_STD.0, LOG_STD.1)))
}

/// Actions and their log densities, a column each, for standard normal `noise`.
pub(super) fn sample(mean: &Tensor, log_std: &Tensor, noise: &Tensor) -> Result<(Tensor, Tensor)> {
    let before = (mean + (log_std.exp()? * noise)?)?;
    // (u - mean) / std is the noise itself.
    let gaussian = (noise.sqr()?.affine(-0.5, -0.5 * (2.0 * PI).ln())? - log_std)?;
    let size = before.abs()?;
    let tail = size.affine(-2.0, 0.0)?.exp()?.affine(1.0, 1.0)?.log()?;
    let log_slope = (size + tail)?.affine(-2.0, 2.0 * LN_2)?;
    Ok((before.tanh()?, (gaussian - log_slope)?))
}
