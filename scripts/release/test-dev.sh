#!/usr/bin/env bash
# Makes and uses the packages that the programs of the dev profile can make, and the archives of the
# crates without building them. `make test-packages` tests the others.
set -euo pipefail
cd "$(dirname "$0")/../.."
export PACKAGE_PROFILE=dev DIST=${CARGO_TARGET_DIR:-$PWD/target}/dev-dist
rm -rf "$DIST"
scripts/release/deb.sh
scripts/release/wheel.sh
scripts/release/crates.sh
scripts/release/test/deb.sh
scripts/release/test/wheel.sh
