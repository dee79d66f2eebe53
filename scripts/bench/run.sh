#!/usr/bin/env bash
# Measures everything that docs/performance.md reports, on this machine. Figures go to
# target/bench/.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=target/bench
mkdir -p "$out"

echo "== parts (criterion)"
cargo bench -p tierwise-core --bench tick -- --noplot | tee "$out/tick.txt"
cargo bench -p tierwise-trace --bench reading -- --noplot | tee "$out/reading.txt"
cargo bench -p tierwise-learn --bench decision -- --noplot | tee "$out/decision.txt"

echo "== replay, access by access, against libCacheSim"
cargo build --release -p tierwise-sim \
    --example replay_rate --example one_terabyte --example enough_fast
scripts/bench/replay.sh traces/redis-ycsb-a.twt 100000000 | tee "$out/replay.json"

echo "== one terabyte of 4 KiB pages"
target/release/examples/one_terabyte multi-clock | tee "$out/one_terabyte.json"

echo "== every policy with fast memory enough for everything, worst first"
target/release/examples/enough_fast 1.1 1 traces/*.twt > "$out/enough_fast.txt"
head -n 20 "$out/enough_fast.txt"

echo "== every policy on every recorded program"
cargo build --release -p tierwise-cli
started=$(date +%s)
target/release/tierwise compare scenarios/recorded/*.toml --html "$out/report.html" \
    > "$out/compare.txt"
echo "{\"seconds\":$(($(date +%s) - started))}" | tee "$out/compare.json"

echo "== a sweep of 10,000 units, beside the simulations"
scripts/bench/sweep.sh target/release/tierwise 2>&1 | tee "$out/sweep.txt"
