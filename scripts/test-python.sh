#!/usr/bin/env bash
# Builds the Python package into target/venv and runs its tests.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$PWD/target/venv
if ! "$venv/bin/python" -c "import gymnasium, mypy, numpy, pytest" 2>/dev/null ||
    [ ! -x "$venv/bin/maturin" ]; then
    echo "test-python: setting up target/venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet "maturin>=1.9.4,<2" gymnasium mypy numpy pytest
fi
cd python
VIRTUAL_ENV=$venv "$venv/bin/maturin" develop --quiet
"$venv/bin/mypy" tierwise tests
"$venv/bin/pytest" -q
