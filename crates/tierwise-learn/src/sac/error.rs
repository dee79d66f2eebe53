//! The errors of a learner.

use std::io;
use std::path::PathBuf;

/// An error of a [`super::Sac`].
#[derive(Debug, thiserror::Error)]
pub enum SacError {
    /// A setting out of range.
    #[error("SAC setting `{key}` is {found}; allowed: {allowed}; change it")]
    Config {
        /// The field of [`super::SacConfig`].
        key: &'static str,
        /// Its value.
        found: String,
        /// The values allowed.
        allowed: String,
    },
    /// A file could not be read or written.
    #[error("{}: {source}; check the path and its permissions", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Bytes that are no safetensors.
    #[error(
        "{file}: not a safetensors file: {reason}; give a file that `Sac::save` wrote, or train \
         again"
    )]
    Format {
        /// The file, or `bytes`.
        file: String,
        /// The reader's message.
        reason: String,
    },
    /// A tensor that the learner needs is missing, or one is unknown.
    #[error(
        "{file}: tensor `{tensor}` is {found}; expected: {expected}; give a file that `Sac::save` \
         wrote with the same `hidden`, or train again"
    )]
    Tensor {
        /// The file, or `bytes`.
        file: String,
        /// The tensor's name.
        tensor: String,
        /// Its type and shape, `missing`, or the number at fault and its place.
        found: String,
        /// The type and shape it must have, or what its numbers must be.
        expected: String,
    },
    /// The replay buffer holds fewer transitions than a mini-batch.
    #[error(
        "{stored} transitions are stored; a training step takes at least {batch}; store more first"
    )]
    TooFew {
        /// Transitions in the replay buffer.
        stored: usize,
        /// [`super::SacConfig::batch`].
        batch: usize,
    },
    /// A loss or its gradient is not finite. The optimiser did not step that network, which keeps
    /// its weights.
    #[error(
        "the {loss} loss or its gradient became {value}; that network was not stepped; lower \
         `learning_rate` or start from saved weights"
    )]
    Diverged {
        /// Name of the loss.
        loss: &'static str,
        /// Its value.
        value: f32,
    },
    /// The tensor library failed.
    #[error("the tensor library failed: {0}; this is a defect, please report it")]
    Library(#[from] candle_core::Error),
}
