#!/usr/bin/env bash
# Runs each fuzz target for FUZZ_SECONDS (60), or only the targets on the command line. Needs a
# nightly toolchain and cargo-fuzz.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"
seconds=${FUZZ_SECONDS:-60}
cargo fuzz --version >/dev/null 2>&1 || cargo install --quiet --locked cargo-fuzz
seeds=../crates/tierwise-fuzz/seeds
[ $# -gt 0 ] || set -- $(ls "$seeds")
for target in "$@"; do
    echo "fuzz: $target for $seconds s"
    mkdir -p "corpus/$target" "artifacts/$target"
    TIERWISE_FUZZ_TARGET=$target \
        cargo +nightly fuzz run target "corpus/$target" "$seeds/$target" -- \
        -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 \
        -artifact_prefix="artifacts/$target/"
done
