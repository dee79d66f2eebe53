#!/usr/bin/env bash
# Loads the dashboard and the command's reports in a real browser and checks their content. A
# directory as argument gets pictures of them at several widths, light and dark.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/build-dev.sh
built="${CARGO_TARGET_DIR:-target}/debug"
"${PYTHON:-python3}" scripts/test_dashboard.py "$built/examples/dashboard" "$@"
"${PYTHON:-python3}" scripts/test_report.py "$built/tierwise" "$@"
