#!/usr/bin/env bash
# Writes the list of the libraries in programs: sbom.sh FILE [PACKAGE...] (default: both programs).
source "$(dirname "$0")/environment.sh"
scripts/release/tools.sh
file=$1
shift
programs=("$@")
[ $# -gt 0 ] || programs=(tierwise-cli tierwised)
cargo metadata --locked --format-version 1 --filter-platform x86_64-unknown-linux-gnu |
    VERSION=$version "$target/release-venv/bin/python" scripts/release/sbom.py \
        "${programs[@]}" > "$file"
