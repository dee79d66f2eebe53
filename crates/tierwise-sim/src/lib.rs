//! A simulated host with tiered memory.

pub mod costs;
pub mod error;
pub mod latency;
pub mod machine;
pub mod result;
pub mod run;
pub mod scenario;
