//! Tests of the learner.

mod control;
mod files;
mod formulas;
mod learning;
mod onnx;
mod refusals;
mod seeds;
