#!/usr/bin/env bash
# Runs each fuzz target for FUZZ_SECONDS (60). Needs a nightly toolchain and cargo-fuzz.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"
seconds=${FUZZ_SECONDS:-60}
cargo fuzz --version >/dev/null 2>&1 || cargo install --quiet --locked cargo-fuzz
for target in $(cargo +nightly fuzz list); do
    echo "fuzz: $target for $seconds s"
    cargo +nightly fuzz run "$target" -- -max_total_time="$seconds" -rss_limit_mb=2048
done
