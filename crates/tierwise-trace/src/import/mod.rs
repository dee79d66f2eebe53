//! Traces made from what other tools write.

pub mod lackey;
