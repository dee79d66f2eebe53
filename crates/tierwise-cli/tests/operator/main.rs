//! Tests of the operator's commands as processes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../common/mod.rs"]
#[allow(dead_code, reason = "other suites use the rest")]
mod common;
mod config;
mod daemon;
mod doctor;
mod generated;
mod machine;
mod recording;
