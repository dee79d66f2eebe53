//! Errors of a simulation.

/// The reason why a scenario cannot run.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The recipe or the scenario's parameters do not fit.
    #[error(transparent)]
    Engine(#[from] tierwise_core::engine::EngineError),
    /// The tenant configuration does not fit the machine.
    #[error(transparent)]
    Tenants(#[from] tierwise_core::tenant::TenantError),
    /// A trace cannot be read.
    #[error(transparent)]
    Trace(#[from] tierwise_trace::TraceError),
    /// The scenario is impossible; the text says why.
    #[error("{0}")]
    Scenario(String),
    /// A checker found the simulator wrong: a bug of Tierwise, never the user's mistake.
    #[error("the simulator broke its own rules (please report this): {0}")]
    Violation(#[from] Violation),
}

/// An invariant that does not hold: the simulator itself is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at {now_ns} ns, seed {seed}: {what}")]
pub struct Violation {
    /// Virtual time.
    pub now_ns: u64,
    /// The seed that reproduces it.
    pub seed: u64,
    /// The invariant that does not hold.
    pub what: String,
}
