//! The record of a unit: what came of it.

use serde::{Deserialize, Serialize};
use tierwise_sim::result::PolicyResult;

/// What came of a unit. Units of a sweep give a [`PolicyResult`]; another command may keep other
/// results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnitRecord<T = PolicyResult> {
    /// The unit's key.
    pub key: String,
    /// Seconds of real time that the run took, without the loading of its scenario.
    pub seconds: f64,
    /// The outcome.
    #[serde(flatten)]
    pub outcome: UnitOutcome<T>,
}

/// The outcome of a unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnitOutcome<T = PolicyResult> {
    /// The run's result.
    Done(Box<T>),
    /// The engine refused the unit, and would again.
    Failed(String),
    /// Its worker died with it, as often as a unit is tried. Another sweep tries it again: the
    /// machine may have had too little memory.
    Died(String),
}

impl<T> UnitOutcome<T> {
    /// The word for tables.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Done(_) => "done",
            Self::Failed(_) => "failed",
            Self::Died(_) => "died",
        }
    }

    /// The reason of a failure.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Done(_) => None,
            Self::Failed(why) | Self::Died(why) => Some(why),
        }
    }

    /// The result of a run that ended.
    pub fn result(&self) -> Option<&T> {
        match self {
            Self::Done(result) => Some(result),
            Self::Failed(_) | Self::Died(_) => None,
        }
    }

    /// Returns true if the unit need not be run again.
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Died(_))
    }
}
