//! Memory traces of real programs, and generators whose ground truth is known.
//!
//! Everything that a simulated host can run is a [`WindowSource`]: a program as a sequence of
//! [`Window`]s, each a fixed stretch of executed instructions with the pages that were touched in
//! it. Consumers cannot distinguish a recorded program ([`reader`]) from a generated one
//! ([`generate`]).

#![warn(unreachable_pub)]

pub mod cache;
pub mod cut;
pub mod export;
pub mod format;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod generate;
pub mod import;
pub mod model;
pub mod new_trace;
pub mod pipe;
pub mod reader;
pub mod record;
pub mod sequence;
pub mod summary;
pub mod unnamed;
pub mod writer;

pub use model::{
    Allocation, CacheModel, Header, ObjectHeat, PageAccess, PageBacking, ThreadShare, TraceError,
    Window, WindowSource,
};
