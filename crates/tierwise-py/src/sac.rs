//! The learner that ships, for training outside a run.

use std::path::PathBuf;

use pyo3::prelude::*;
use tierwise_learn::sac::{self, SacConfig, SacError, Transition};

use crate::error::{TierwiseError, refuse, unreadable};

/// Three numbers: usage ratio, access ratio, load.
type State = (f32, f32, f32);

/// `tierwise_learn::sac::Sac` with its defaults.
#[pyclass(module = "tierwise._tierwise", name = "Sac")]
pub struct PythonSac(sac::Sac);

#[pymethods]
impl PythonSac {
    #[new]
    #[pyo3(signature = (*, seed=1))]
    fn new(seed: u64) -> PyResult<Self> {
        sac::Sac::new(&SacConfig::default(), seed).map(Self).map_err(refuse)
    }

    /// A learner with saved weights.
    #[staticmethod]
    #[pyo3(signature = (path, *, seed=1))]
    fn load(path: PathBuf, seed: u64) -> PyResult<Self> {
        sac::Sac::load(path, &SacConfig::default(), seed).map(Self).map_err(sac_error)
    }

    /// A sampled action, for exploration.
    fn act(&mut self, state: State) -> f32 {
        self.0.act(state.into())
    }

    /// The action at the mean of the actor's distribution.
    fn act_mean(&self, state: State) -> f32 {
        self.0.act_mean(state.into())
    }

    /// Stores a transition. Returns true if a training followed.
    fn store(
        &mut self,
        py: Python<'_>,
        state: State,
        action: f32,
        reward: f32,
        next: State,
        done: bool,
    ) -> bool {
        let (state, next) = (state.into(), next.into());
        py.detach(|| self.0.store(Transition { state, action, reward, next, done }))
    }

    /// The weight of entropy against reward.
    #[getter]
    fn temperature(&self) -> f32 {
        self.0.temperature()
    }

    /// Training steps taken.
    #[getter]
    fn steps(&self) -> u64 {
        self.0.steps()
    }

    /// Writes the weights as safetensors.
    fn save(&self, path: PathBuf) -> PyResult<()> {
        self.0.save(path).map_err(sac_error)
    }

    /// Writes the deterministic actor as ONNX.
    fn export_onnx(&self, path: PathBuf) -> PyResult<()> {
        self.0.export_onnx(path).map_err(sac_error)
    }
}

fn sac_error(error: SacError) -> PyErr {
    match error {
        SacError::Io { path, source } => unreadable(&path, &source),
        other => TierwiseError::new_err(other.to_string()),
    }
}
