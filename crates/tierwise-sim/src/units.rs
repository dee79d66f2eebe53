//! Sizes that every part of the model shares.

/// Bytes of a cache line, on every simulated machine.
pub const LINE: f64 = 64.0;
