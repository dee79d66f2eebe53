//! What can go wrong in a simulation.

/// Why a scenario cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The recipe or the scenario's parameters do not fit.
    #[error(transparent)]
    Engine(#[from] tierwise_core::engine::EngineError),
    /// A trace cannot be read.
    #[error(transparent)]
    Trace(#[from] tierwise_trace::TraceError),
    /// Work in progress.
    #[error("unfinished")]
    Unfinished,
}
