//! Profiles as files: a tenant's throughput as a function of its fast memory.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tierwise_core::profile::{Profile, ProfileError};
use tierwise_core::units::Bytes;
use tierwise_trace::pipe;

use crate::error::SimError;

/// The JSON form of a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileFile {
    /// The workload that was profiled.
    pub name: String,
    /// The scenario or trace of the measurement, and its method.
    pub source: String,
    /// The measurements, ascending by fast memory.
    pub points: Vec<ProfilePoint>,
}

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfilePoint {
    /// Bytes of fast memory that it could hold.
    pub fast_bytes: u64,
    /// Instructions per second.
    pub throughput: f64,
}

impl ProfileFile {
    /// Returns the profile for the engine.
    ///
    /// # Errors
    /// The points do not make a profile.
    pub fn profile(&self) -> Result<Profile, ProfileError> {
        Profile::new(self.points.iter().map(|p| (Bytes(p.fast_bytes), p.throughput)).collect())
    }
}

/// Reads a profile.
///
/// # Errors
/// The file cannot be read, is not JSON of this form, or its points do not make a profile.
pub fn read_profile(path: &Path) -> Result<Profile, SimError> {
    let wrong = |why: String| {
        SimError::Scenario(format!(
            "profile {}: {why}; `tierwise profile` makes such files",
            path.display()
        ))
    };
    let text = pipe::open(path).and_then(io::read_to_string);
    let text = text.map_err(|e| wrong(e.to_string()))?;
    let file: ProfileFile = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
    file.profile().map_err(|e| wrong(e.to_string()))
}
