#!/bin/bash
# Makes the recordings of this directory again, from the repository's root, as root on Debian 12:
#
#     crates/tierwise-trace/tests/foreign/make.sh lackey perf libcachesim damo
#     RAMULATOR=~/ramulator2 CHAMPSIM=~/ChampSim .../make.sh ramulator champsim
#
# RAMULATOR and CHAMPSIM are clones of CMU-SAFARI/ramulator2 and ChampSim/ChampSim. damo needs the
# lab (make lab). Addresses, times and process ids differ from run to run.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

lackey() {
    gcc -O1 -static -nostdlib -fno-stack-protector -fno-pie -no-pie -o walk "$here/walk.c"
    valgrind --tool=lackey --trace-mem=yes --log-file="$here/walk.lackey" ./walk
}

champsim() { # of the run in walk.lackey
    g++ -O1 -std=c++17 -I"$CHAMPSIM/inc" -o to_champsim "$here/to_champsim.cc"
    ./to_champsim < "$here/walk.lackey" | xz > "$here/walk.champsimtrace.xz"
}

perf() { # a virtual machine without PEBS and IBS: page faults have the form of perf mem's samples
    command perf record -q -e page-faults -c 2 -d -o perf.data ls / > /dev/null
    command perf script -i perf.data -F pid,tid,time,period,event,addr,data_src \
        > "$here/faults.perf"
}

ramulator() { # the generator was removed after this commit
    git -C "$RAMULATOR" show 4754133d9aff:examples/generate_inst_trace.py > generate.py
    python3 generate.py 500 --seed 7 --max-addr 4194304 --output simple-o3.trace
    cp traces/simple-o3.trace "$here/"
}

libcachesim() {
    python3 -m venv venv && venv/bin/pip install -q libcachesim==0.3.5
    venv/bin/python "$here/requests.py" "$here/zipf.oracleGeneral"
}

damo() {
    mkdir job results
    pip install -q --target packages damo==3.4.3
    cp -r packages/damo "$here/damo.sh" job/
    apt-get download trace-cmd libtracefs1 libtraceevent1
    for package in *.deb; do dpkg-deb -x "$package" job/tc; done
    (cd "$root/lab" && python3 -m tierlab run --kernel 7 --job "$work/job" \
        --results "$work/results" -- 'bash damo.sh')
    cp results/truth "$here/stairs.truth"
    cp results/stairs* "$here/"
}

for tool in "$@"; do "$tool"; done
