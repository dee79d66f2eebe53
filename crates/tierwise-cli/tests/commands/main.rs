//! Tests of the commands that explain a run, that find sizes, and that check floors.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod advise;
mod bounded;
#[path = "../common/mod.rs"]
mod common;
mod conform;
mod explain;
mod foreign;
mod numbers;
mod plan;
mod profile;
mod recipe_numbers;
mod reproduce;
mod streams;
mod sweep;
mod validate;
