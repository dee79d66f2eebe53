#!/usr/bin/env bash
# Builds the Python package into target/venv, and runs its checks, its tests and the tutorials.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$PWD/target/venv
# The command shares results with the package, and the tutorials use it.
scripts/build-dev.sh
scripts/python-venv.sh
cd python
"$venv/bin/mypy" tierwise tests examples
"$venv/bin/stubtest" --mypy-config-file pyproject.toml tierwise._tierwise
"$venv/bin/pytest" -q
