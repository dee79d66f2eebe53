#!/usr/bin/env bash
# Measures workloads with a signal, one after the other, each in its own process: run.sh PYTHON
# SIGNAL [SECONDS [WORKLOAD...]] >> results.jsonl
set -euo pipefail
cd "$(dirname "$0")"
python=${1:?usage: run.sh PYTHON SIGNAL [SECONDS [WORKLOAD...]]}
signal=${2:?a signal}
seconds=${3:-20}
shift $(($# < 3 ? $# : 3))
[ $# -gt 0 ] || set -- bfs-rand kc sql1 astar bidirectional sp bfs bellman lc sql2 sql3
for workload in "$@"; do
    nice -n 10 "$python" measure.py "$workload" "$signal" "$seconds"
done
