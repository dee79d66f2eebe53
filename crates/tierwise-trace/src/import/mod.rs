//! Traces from the output of other tools.

pub mod lackey;
