//! Everything outside the engine, behind one trait.

use crate::migrate::{MigrationPlan, MoveOutcome};
use crate::observe::{Capabilities, Observation};
use crate::topology::Topology;
use crate::units::Timestamp;

/// A simulated machine or this Linux host.
///
/// The driver calls `observe`, `migrate` and `wait_until` in turn, from one thread. Nothing above a
/// world knows which one it is.
pub trait World {
    /// What can go wrong with the world itself. A move that fails is not an error but an outcome.
    type Error: std::error::Error + Send + Sync + 'static;

    /// The machine's tiers.
    fn topology(&self) -> Topology;

    /// What this world can report.
    fn capabilities(&self) -> Capabilities;

    /// The time; never goes back.
    fn now(&self) -> Timestamp;

    /// Fills `out` with everything seen since the last call. `out` comes as the last call left it;
    /// the world clears it first and reuses its buffers. After a wait that a hint fault cut short,
    /// reference bits, samples and counts may be left for the next observation: nobody was about to
    /// read them.
    ///
    /// # Errors
    /// The world can no longer be observed.
    fn observe(&mut self, out: &mut Observation) -> Result<(), Self::Error>;

    /// Carries out a plan: poisons, moves in order, and adopts the plan's watch and placement. Adds
    /// one outcome for each move to `out`, in the order of the moves.
    ///
    /// # Errors
    /// The world can no longer be acted on.
    fn migrate(
        &mut self,
        plan: &MigrationPlan,
        out: &mut Vec<MoveOutcome>,
    ) -> Result<(), Self::Error>;

    /// Lets time pass until `deadline` (`None`: as long as the world likes), or less when something
    /// happened that should not wait: a hint fault, or a tier that fell below its low watermark.
    /// Returns false when the world has come to its end.
    ///
    /// # Errors
    /// The world broke down.
    fn wait_until(&mut self, deadline: Option<Timestamp>) -> Result<bool, Self::Error>;
}
