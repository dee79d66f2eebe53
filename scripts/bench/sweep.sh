#!/usr/bin/env bash
# Measures what a sweep of 10,000 units on two workers costs beside the simulations. Five times in
# turn, 2,000 units are run by `tierwise sweep` and by two processes that only simulate; results go
# to one directory, which keeps 10,000 at the end. Both wall times are from the command's start to
# its end, but the second without the plan's reading. sweep.sh [TIERWISE [BARE]]
set -euo pipefail
tierwise=$(realpath "${1:-target/release/tierwise}")
bare=$(realpath "${2:-target/release/examples/bare}")
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
cat > scenario.toml <<TOML
name = "sweep"
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
windows = ${WINDOWS:-4000}
TOML
for pair in 1 2 3 4 5; do
    cat > "plan-$pair.toml" <<TOML
scenarios = ["scenario.toml"]
recipes = ["multi-clock", "memtis"]
seeds = { from = ${pair}001, count = 200 }
[grid]
scenario.machine.fast_share = [0.1, 0.2, 0.3, 0.4, 0.5]
TOML
done
TIMEFORMAT="%R %U %S"
echo "PAIR  SWEEP S  ALONE S  RATIO  CPU OF BOTH, S"
for pair in 1 2 3 4 5; do
    # The one that starts changes, so that neither has the machine's better half.
    order="sweep alone"
    [ $((pair % 2)) = 1 ] || order="alone sweep"
    for kind in $order; do
        case $kind in
        sweep) sweep=$({ time "$tierwise" sweep "plan-$pair.toml" --jobs 2 --out results \
            > said; } 2>&1) ;;
        alone) alone=$({ time "$bare" "plan-$pair.toml" 2 > seconds; } 2>&1) ;;
        esac
    done
    awk -v pair="$pair" -v sweep="$sweep" -v alone="$alone" -v wall="$(cat seconds)" 'BEGIN {
        split(sweep, s); split(alone, a)
        printf "%4d  %7.2f  %7.2f  %5.3f  %.2f, %.2f\n", pair, s[1], wall, s[1] / wall,
            s[2] + s[3], a[2] + a[3]
    }'
done
tail -n 2 said
