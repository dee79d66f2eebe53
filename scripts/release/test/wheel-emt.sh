#!/usr/bin/env bash
# Installs the wheel of tierwise-emt into an empty environment and loads its extension there.
source "$(dirname "$0")/common.sh"
wheel=$(one "tierwise_emt-$version-*.whl")
must 'manylinux_2_17_x86_64' "$target/release-venv/bin/auditwheel" show "$wheel"
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check "$wheel"
must "tierwise.emt._emt" hidden "$work/venv/bin/python" -c "
import tierwise.emt._emt
print(tierwise.emt._emt.__name__)"
echo "test-packages: $(basename "$wheel") loads"
