#!/usr/bin/env bash
# Measures what a sweep of 10,000 units on two workers costs beside the simulations: the CPU time of
# all its processes, once with units of some ten milliseconds and once with units of almost nothing.
# The second is the cost of the sweep itself. sweep.sh [TIERWISE]
set -euo pipefail
tierwise=$(realpath "${1:-target/release/tierwise}")
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
for windows in 2 4000; do
    cat > "scenario-$windows.toml" <<TOML
name = "sweep-$windows"
summary = "A skewed working set of a mebibyte"
[machine]
preset = "dram-cxl"
fast_share = 0.25
[[workload]]
name = "program"
[workload.generator]
pattern = "zipf"
footprint = "1MiB"
accesses_per_window = 2000
windows = $windows
TOML
    cat > "plan-$windows.toml" <<TOML
scenarios = ["scenario-$windows.toml"]
recipes = ["multi-clock", "memtis"]
seeds = { from = 1, count = 1000 }
[grid]
scenario.machine.fast_share = [0.1, 0.2, 0.3, 0.4, 0.5]
TOML
    TIMEFORMAT="windows $windows: %R s, CPU %U + %S s"
    time "$tierwise" sweep "plan-$windows.toml" --jobs 2 --out results
done
