#!/usr/bin/env bash
# Builds the programs of the dev profile for the checks that run them. It selects what `cargo test
# --workspace --all-targets` selects, so that dependencies have the same features: what the tests
# built is not built once more.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --quiet --workspace --bin tierwise --bin tierwised --example dashboard
