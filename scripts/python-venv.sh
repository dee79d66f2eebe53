#!/usr/bin/env bash
# Makes target/venv, in which the Python package is built and tested, and builds the
# package into it.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$PWD/target/venv
# A list that changed is installed again.
wanted=$(grep -v '^#' python/requirements-dev.txt | sha256sum)
if [ "$(cat "$venv/installed" 2>/dev/null)" != "$wanted" ]; then
    echo "python-venv: setting up target/venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r python/requirements-dev.txt
    echo "$wanted" > "$venv/installed"
fi
cd python
VIRTUAL_ENV=$venv "$venv/bin/maturin" develop --quiet
