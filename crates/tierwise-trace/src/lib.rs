//! Memory traces of real programs, and generators whose ground truth is known.
//!
//! Everything that a simulated host can run is a [`WindowSource`]: a program seen as a sequence of
//! [`Window`]s, each a fixed stretch of executed instructions with the pages that were touched in
//! it. A recorded program ([`reader`]) and a generated one ([`generate`]) look the same from here
//! on.

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
pub mod reader;
pub mod record;
pub mod sequence;
pub mod summary;
pub mod unnamed;
pub mod writer;

pub use model::{
    Allocation, CacheModel, Header, PageAccess, PageBacking, ThreadShare, TraceError, Window,
    WindowSource,
};
