#!/usr/bin/env bash
# Replays one sequence of pages with Tierwise's clock and with libCacheSim's, and prints both rates
# and their ratio. libCacheSim (PyPI, GPL-3) is installed in a separate environment: it is a
# reference, not a part of the project.
set -euo pipefail
cd "$(dirname "$0")/../.."
trace=$1
accesses=$2
examples=${CARGO_TARGET_DIR:-target}/release/examples
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
venv=${CARGO_TARGET_DIR:-target}/bench-venv
if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet libcachesim numpy
fi
"$examples/replay_rate" "$trace" "$accesses" "$work/sequence.u32" > "$work/ours.json"
"$venv/bin/python" scripts/bench/libcachesim_clock.py "$work/sequence.u32" "$work/ours.json"
