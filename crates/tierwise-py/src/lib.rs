//! Tierwise for Python: the module `_tierwise`, which the package in `python/` wraps.
//!
//! Bindings only: the engine runs on the simulated host, and Python chooses its learner: none
//! ([`simulation::Simulation`]), a function that is called at every decision
//! ([`simulation::Simulation`] with an agent), or a loop that requests the next decision itself
//! ([`environment::Environment`], for Gymnasium). [`sac::PythonSac`] is the learner that ships with
//! Tierwise.
//!
//! Python's lock is released while a simulation runs. Structured data crosses to Python as JSON
//! text, which the package converts to dictionaries.

#![warn(unreachable_pub)]

mod callable;
mod environment;
mod error;
mod input;
mod remote;
mod running;
mod sac;
mod simulation;
mod stop;
mod switch;

/// The Python module `_tierwise`.
#[pyo3::pymodule]
mod _tierwise {
    #[pymodule_export]
    use crate::environment::Environment;
    #[pymodule_export]
    use crate::error::TierwiseError;
    #[pymodule_export]
    use crate::sac::PythonSac;
    #[pymodule_export]
    use crate::simulation::Simulation;
}
