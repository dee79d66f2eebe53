//! Writes and reads weights as [safetensors](https://huggingface.co/docs/safetensors).
//!
//! Tensors have the names `NETWORK.LAYER.weight` (`[outputs, inputs]`, PyTorch's order) and
//! `NETWORK.LAYER.bias`, for the networks `actor`, `critic_1`, `critic_2`, `target_1` and
//! `target_2`, and `log_temperature`. `replay` has a row for each transition of the replay buffer,
//! and is missing if there is none. The optimisers' moments are not saved, as the library does not
//! give them; they are computed again from the transitions. So a loaded learner acts as the saved
//! one did and continues to learn from the same transitions and new ones.

use std::collections::HashMap;
use std::path::Path;

use candle_core::{Device, Tensor, Var};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use safetensors::{Dtype, SafeTensors};

use super::critic::{Twins, critic_shapes};
use super::learner::Networks;
use super::mlp::{LAYERS, Mlp};
use super::policy::actor_shapes;
use super::replay::NUMBERS;
use super::{Sac, SacConfig, SacError};
use crate::model_file;

const LOG_TEMPERATURE: &str = "log_temperature";

const REPLAY: &str = "replay";

impl Sac {
    /// The weights as safetensors.
    ///
    /// # Errors
    /// [`SacError::Library`] if the tensor library fails.
    pub fn to_bytes(&self) -> Result<Vec<u8>, SacError> {
        let named = [
            ("actor", &self.actor),
            ("critic_1", &self.critics.0[0]),
            ("critic_2", &self.critics.0[1]),
            ("target_1", &self.targets.0[0]),
            ("target_2", &self.targets.0[1]),
        ];
        let mut tensors = HashMap::new();
        for (network, mlp) in named {
            for (layer, (weight, bias)) in mlp.parts().into_iter().enumerate() {
                tensors.insert(format!("{network}.{layer}.weight"), weight);
                tensors.insert(format!("{network}.{layer}.bias"), bias);
            }
        }
        tensors.insert(LOG_TEMPERATURE.to_string(), self.log_temperature.as_detached_tensor());
        if !self.replay.is_empty() {
            let shape = (self.replay.len(), NUMBERS);
            let rows = Tensor::from_vec(self.replay.rows(), shape, &Device::Cpu)?;
            tensors.insert(REPLAY.to_string(), rows);
        }
        Ok(safetensors::serialize(&tensors, None).map_err(candle_core::Error::from)?)
    }

    /// A learner with the weights of [`Self::to_bytes`]; `seed` is the seed of its noise.
    ///
    /// # Errors
    /// Like [`Self::load`], from bytes.
    pub fn from_bytes(bytes: &[u8], config: &SacConfig, seed: u64) -> Result<Self, SacError> {
        Self::read("bytes", bytes, config, seed)
    }

    /// Writes the weights beside `path` and puts them in its place.
    ///
    /// # Errors
    /// [`SacError::Io`] if the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), SacError> {
        save(path.as_ref(), &self.to_bytes()?)
    }

    /// A learner with the weights of [`Self::save`]; `seed` is the seed of its noise.
    ///
    /// # Errors
    /// [`SacError::Config`] if a setting is out of range; [`SacError::Io`] if the file cannot be
    /// read; [`SacError::Format`] if it is no safetensors; [`SacError::Tensor`] if a tensor is
    /// missing, unknown, of another type or shape than `config` asks for, or holds a number that is
    /// not finite.
    pub fn load(path: impl AsRef<Path>, config: &SacConfig, seed: u64) -> Result<Self, SacError> {
        let path = path.as_ref();
        let bytes =
            model_file::read(path).map_err(|source| SacError::Io { path: path.into(), source })?;
        Self::read(&path.display().to_string(), &bytes, config, seed)
    }

    pub(crate) fn read(
        file: &str,
        bytes: &[u8],
        config: &SacConfig,
        seed: u64,
    ) -> Result<Self, SacError> {
        config.validate()?;
        let tensors = SafeTensors::deserialize(bytes).map_err(|error| SacError::Format {
            file: file.to_string(),
            reason: error.to_string(),
        })?;
        let mut reader = Reader { file, tensors, taken: Vec::new() };
        let networks = reader.networks(config.hidden)?;
        let replay = reader.replay()?;
        reader.nothing_left()?;
        let mut sac = Self::with_networks(config, networks, ChaCha8Rng::seed_from_u64(seed))?;
        match sac.replay.restore(&replay) {
            None if sac.len() < config.batch => Ok(sac),
            None => {
                sac.recover_moments()?;
                Ok(sac)
            }
            Some(row) => {
                let found = format!("a number in row {row} that is too large");
                Err(reader.refuse(REPLAY, found, "numbers of about one".into()))
            }
        }
    }
}

/// Writes a model as a file.
pub(super) fn save(path: &Path, bytes: &[u8]) -> Result<(), SacError> {
    model_file::write(path, bytes).map_err(|source| SacError::Io { path: path.into(), source })
}

/// Takes tensors out of a file and checks each.
struct Reader<'a> {
    file: &'a str,
    tensors: SafeTensors<'a>,
    taken: Vec<String>,
}

impl Reader<'_> {
    fn networks(&mut self, hidden: usize) -> Result<Networks, SacError> {
        let actor = Mlp::trainable(&self.parts("actor", actor_shapes(hidden))?)?;
        let shapes = critic_shapes(hidden);
        let (first, mut variables) = Mlp::trainable(&self.parts("critic_1", shapes)?)?;
        let (second, more) = Mlp::trainable(&self.parts("critic_2", shapes)?)?;
        variables.extend(more);
        let targets = [
            Mlp::fixed(&self.parts("target_1", shapes)?)?,
            Mlp::fixed(&self.parts("target_2", shapes)?)?,
        ];
        Ok(Networks {
            actor,
            critics: (Twins([first, second]), variables),
            targets: Twins(targets),
            log_temperature: Var::from_tensor(&self.take(LOG_TEMPERATURE.into(), &[1])?)?,
        })
    }

    /// The numbers of the replay buffer, if the file has one.
    fn replay(&mut self) -> Result<Vec<f32>, SacError> {
        let Ok(view) = self.tensors.tensor(REPLAY) else { return Ok(Vec::new()) };
        let rows = view.shape().first().copied().unwrap_or(0);
        Ok(self.take(REPLAY.into(), &[rows, NUMBERS])?.flatten_all()?.to_vec1()?)
    }

    fn parts(
        &mut self,
        network: &str,
        shapes: [[usize; 2]; LAYERS],
    ) -> Result<Vec<(Tensor, Tensor)>, SacError> {
        let layer = |(layer, shape): (usize, [usize; 2])| {
            let weight = self.take(format!("{network}.{layer}.weight"), &shape)?;
            Ok((weight, self.take(format!("{network}.{layer}.bias"), &shape[..1])?))
        };
        shapes.into_iter().enumerate().map(layer).collect()
    }

    /// Takes the tensor `name`, if it has the expected shape, is f32, and finite.
    fn take(&mut self, name: String, shape: &[usize]) -> Result<Tensor, SacError> {
        let expected = format!("F32 of shape {shape:?}");
        let Ok(view) = self.tensors.tensor(&name) else {
            return Err(self.refuse(&name, "missing".into(), expected));
        };
        if view.dtype() != Dtype::F32 || view.shape() != shape {
            let found = format!("{:?} of shape {:?}", view.dtype(), view.shape());
            return Err(self.refuse(&name, found, expected));
        }
        let (numbers, _) = view.data().as_chunks::<4>();
        let numbers: Vec<f32> = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        if let Some(place) = numbers.iter().position(|number| !number.is_finite()) {
            let found = format!("{} at place {place}", numbers[place]);
            return Err(self.refuse(&name, found, "finite numbers only".into()));
        }
        self.taken.push(name);
        Ok(Tensor::from_vec(numbers, shape, &Device::Cpu)?)
    }

    /// Refuses a file with tensors of another kind of learner.
    fn nothing_left(&self) -> Result<(), SacError> {
        let mut names = self.tensors.names();
        names.sort();
        match names.into_iter().find(|name| !self.taken.iter().any(|taken| taken == name)) {
            Some(name) => Err(self.refuse(name, "unknown".into(), "not there".into())),
            None => Ok(()),
        }
    }

    fn refuse(&self, tensor: &str, found: String, expected: String) -> SacError {
        SacError::Tensor { file: self.file.into(), tensor: tensor.into(), found, expected }
    }
}
