#!/usr/bin/env bash
# Loads the dashboard in a real browser and looks at what it shows. With a folder as argument, pictures of it at several
# widths, light and dark, are left there.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --quiet -p tierwised --example dashboard
exec "${PYTHON:-python3}" scripts/test_dashboard.py "${CARGO_TARGET_DIR:-target}/debug/examples/dashboard" "$@"
