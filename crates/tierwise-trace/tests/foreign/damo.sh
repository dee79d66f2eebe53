#!/bin/bash
# Runs in a guest of the lab: damo records a program whose hot memory is known. The working
# directory has damo (pip), and trace-cmd with its libraries below tc/ (Debian).
set -eu
export LD_LIBRARY_PATH=$PWD/tc/usr/lib/x86_64-linux-gnu PATH=$PATH:$PWD/tc/usr/bin
tracing=/sys/kernel/tracing
mountpoint -q $tracing || mount -t tracefs none $tracing
# damo needs a kdamond that the kernel's own use of DAMON does not have.
echo N > /sys/module/damon_stat/parameters/enabled
/lab/bin/stairs mib=64 hot_mib=8 pattern=fixed hot_at_mib=16 forget=1 pause_us=1000 \
    report=/tmp/truth phases=0 > /dev/null &
program=$!
sleep 2
cp /tmp/truth /results/
mkdir $tracing/instances/all
echo 1 > $tracing/instances/all/events/damon/damon_aggregated/enable
record() { # record FILE OPTION...
    python3 damo/damo.py record $program --timeout 8 --out "/results/$1" \
        --monitoring_intervals 10ms 250ms 1s --monitoring_nr_regions_range 10 40 "${@:2}"
}
record first.damo --output_type json
cat $tracing/instances/all/trace > /results/stairs-tracefs.txt
record stairs.damo
record stairs-perf-script.damo --output_type perf_script
kill $program
