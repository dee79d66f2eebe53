//! Everything outside the engine, behind one trait.

use crate::migrate::{MigrationPlan, MoveOutcome};
use crate::observe::{Capabilities, Observation};
use crate::topology::Topology;
use crate::units::Timestamp;

/// A simulated machine or this Linux host.
///
/// The driver calls `observe`, `migrate` and `wait_until` one after the other, from one thread. The
/// driver and the engine do not know which world it is.
pub trait World {
    /// A failure of the world itself. A move that fails is not an error but an outcome.
    type Error: std::error::Error + Send + Sync + 'static;

    /// The machine's tiers.
    fn topology(&self) -> Topology;

    /// The signals that this world can report.
    fn capabilities(&self) -> Capabilities;

    /// The time. It never goes back.
    fn now(&self) -> Timestamp;

    /// Fills `out` with everything observed since the last call. `out` is as the last call left it:
    /// the world clears it first and reuses its buffers. After a wait that a hint fault cut short,
    /// the world may leave reference bits, samples and counts for the next observation, because no
    /// policy is due to read them.
    ///
    /// # Errors
    /// The world can no longer be observed.
    fn observe(&mut self, out: &mut Observation) -> Result<(), Self::Error>;

    /// True if the world can afford a decision now, after the last observation. Otherwise this
    /// round makes no plan, and gets what the last one left ([`crate::engine::Engine::poll_rest`]).
    fn affords_decision(&mut self) -> bool {
        true
    }

    /// Applies a plan: poisons pages, moves pages in order, and adopts the plan's signals and
    /// placement. Adds one outcome per move to `out`, in the order of the moves.
    ///
    /// # Errors
    /// The world can no longer be changed.
    fn migrate(
        &mut self,
        plan: &MigrationPlan,
        out: &mut Vec<MoveOutcome>,
    ) -> Result<(), Self::Error>;

    /// Waits until `deadline` (`None`: as long as the world chooses). Returns early on an event
    /// that should not wait: a hint fault, or a tier that fell below its low watermark. Returns
    /// false when the world has ended.
    ///
    /// # Errors
    /// The world failed.
    fn wait_until(&mut self, deadline: Option<Timestamp>) -> Result<bool, Self::Error>;
}
