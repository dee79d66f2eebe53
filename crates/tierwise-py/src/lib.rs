//! Tierwise for Python: the module `_tierwise`, which the package in `python/` wraps.
//!
//! Bindings only: the engine runs on the simulated host, and Python chooses its learner: none
//! ([`simulation::Simulation`]), a function that is called at every decision
//! ([`simulation::Simulation`] with an agent), or a loop that requests the next decision itself
//! ([`environment::Environment`], for Gymnasium). [`sac::PythonSac`] is the learner that ships with
//! Tierwise.
//!
//! [`arrays`] is the estimator that a Python function of arrays decides, [`trace`] reads traces
//! into columns, and [`sweep`] is `tierwise-sweep`, for any executor.
//!
//! Python's lock is released while a simulation runs. Structured data crosses to Python as JSON
//! text, which the package converts to dictionaries.

#![warn(unreachable_pub)]

mod arrays;
mod callable;
mod environment;
mod error;
mod input;
mod remote;
mod running;
mod sac;
mod simulation;
mod stop;
mod sweep;
mod switch;
mod trace;

/// The Python module `_tierwise`.
#[pyo3::pymodule]
mod _tierwise {
    #[pymodule_export]
    use crate::environment::Environment;
    #[pymodule_export]
    use crate::error::TierwiseError;
    #[pymodule_export]
    use crate::input::to_toml;
    #[pymodule_export]
    use crate::sac::PythonSac;
    #[pymodule_export]
    use crate::simulation::Simulation;
    #[pymodule_export]
    use crate::sweep::{PythonPlan, PythonStore, run_unit};
    #[pymodule_export]
    use crate::trace::read_trace;
}
