#!/usr/bin/env bash
# Checks that the generated documentation matches the code.
set -euo pipefail
cd "$(dirname "$0")/.."
fresh=$(mktemp)
trap 'rm -f "$fresh"' EXIT
scripts/build-dev.sh
"${CARGO_TARGET_DIR:-target}/debug/tierwise" reference > "$fresh"
if ! diff -u docs/cli.md "$fresh"; then
    echo "docs/cli.md is stale: run \`make docs\` and commit it" >&2
    exit 1
fi
