#!/usr/bin/env bash
# Installs the wheel of tierwise into an empty environment and uses its module and its command.
source "$(dirname "$0")/common.sh"
wheel=$(one "tierwise-$version-*.whl")
if [ "$profile" != dev ]; then
    must 'manylinux_2_17_x86_64' "$target/release-venv/bin/auditwheel" show "$wheel"
fi
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check "$wheel"
bin=$work/venv/bin
must "redis-ycsb-c: Redis" hidden "$bin/tierwise" compare --policies static,clock
must "tierwise $version" hidden "$bin/tierwise" --version
must "share/tierwise/scenarios" hidden "$bin/tierwise" scenario list
must "tierwise-compare" man --local-file "$work/venv/share/man/man1/tierwise-compare.1"
must "slowdown" hidden "$bin/python" -c "
import sys, tierwise
print(tierwise.run(sys.prefix + '/share/tierwise/scenarios/zipf.toml', 'static')['result'])"
# The command finds what the module computed.
cat > "$work/sweep.toml" <<END
scenarios = ["$work/venv/share/tierwise/scenarios/zipf.toml"]
recipes = ["static", "clock"]
END
must "2 units: 0 kept, 2 to run" hidden "$bin/tierwise" sweep sweep.toml --out results --dry-run
hidden "$bin/python" -c "
from concurrent.futures import ThreadPoolExecutor
from tierwise import sweep
sweep.run('sweep.toml', ThreadPoolExecutor(1), out='results')"
must "2 units: 2 kept, 0 to run" hidden "$bin/tierwise" sweep sweep.toml --out results --dry-run
"$bin/pip" uninstall --quiet --yes tierwise
left=$(find "$work/venv" -path '*tierwise*' -type f)
[ -z "$left" ] || fail "pip uninstall left $left"
# One wheel serves every version of CPython from 3.11 on: each that this machine has.
others=()
installed=${PYENV_ROOT:-$HOME/.pyenv}/versions
for minor in 11 12 13 14; do
    for python in "python3.$minor" "$installed/3.$minor".*/bin/python3; do
        [ "$("$python" -c 'import ensurepip, sys, venv; print(sys.version_info[1])' \
            2>/dev/null)" = "$minor" ] || continue
        rm -rf "$work/other"
        "$python" -m venv "$work/other"
        "$work/other/bin/pip" install --quiet --disable-pip-version-check "$wheel"
        must "3.$minor slowdown" hidden "$work/other/bin/python" -c "
import sys, tierwise
result = tierwise.run(sys.prefix + '/share/tierwise/scenarios/zipf.toml', 'static')['result']
print(f'{sys.version_info[0]}.{sys.version_info[1]} slowdown', result['slowdown'])"
        must "tierwise $version" hidden "$work/other/bin/tierwise" --version
        others+=("3.$minor")
        break
    done
done
echo "test-packages: the wheel works on CPython ${others[*]}"
echo "test-packages: $(basename "$wheel") gives the module and the command"
