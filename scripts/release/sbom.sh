#!/usr/bin/env bash
# Writes the list of the libraries in both programs: sbom.sh FILE.
source "$(dirname "$0")/environment.sh"
scripts/release/tools.sh
cargo metadata --locked --format-version 1 --filter-platform x86_64-unknown-linux-gnu |
    VERSION=$version "$target/release-venv/bin/python" scripts/release/sbom.py > "$1"
