//! The CPU alone places pages: the machine must have a tier that the CPU manages.
//!
//! Parameter: `mode` ("flat", the default, or "2lm").

use std::time::Duration;

use crate::config::{ConfigError, Section};
use crate::observe::{Observation, Signals};
use crate::page::PageTable;
use crate::policy::PlanContext;
use crate::share::Shares;
use crate::stage::{Estimator, Partitioner};
use crate::units::Timestamp;

/// Partitioner that writes no shares, and requires a tier that the CPU manages.
#[derive(Debug, Clone, Copy)]
pub struct HardwareManaged {
    signals: Signals,
}

impl HardwareManaged {
    /// Reads its parameter.
    ///
    /// # Errors
    /// `mode` has another value.
    pub fn build(section: &Section<'_>) -> Result<Self, ConfigError> {
        let flat = Signals { flat_memory: true, ..Signals::default() };
        let two_level = Signals { two_level: true, ..Signals::default() };
        let signals = section.choice_or("mode", flat, &[("flat", flat), ("2lm", two_level)])?;
        Ok(Self { signals })
    }
}

impl Partitioner for HardwareManaged {
    fn signals(&self) -> Signals {
        self.signals
    }

    fn interval(&self) -> Option<Duration> {
        None
    }

    fn on_observation(&mut self, _: Timestamp, _: &Observation, _: &PageTable) {}

    fn partition(&mut self, _: Timestamp, _: &PlanContext<'_>, _: &dyn Estimator, _: &mut Shares) {}
}
