#!/usr/bin/env bash
# Checks licences, bans and sources of all dependencies, and advisories if their database is on this
# machine. Those of the Go modules in the scheduler's driver are checked where Go is needed anyway:
# scripts/release/sbom-go.sh, by `make fleet-test` and by each release.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.20.2
if ! cargo deny --version 2>/dev/null | grep -q "$version"; then
    echo "deny: building cargo-deny $version (once, a few minutes)"
    # Unoptimised: it runs for seconds, and optimising it takes two minutes.
    cargo install --quiet --locked --debug cargo-deny --version "$version"
fi
cargo deny --log-level error check bans licenses sources
if [ -d "${CARGO_HOME:-$HOME/.cargo}/advisory-dbs" ]; then
    cargo deny --log-level error --offline check advisories
else
    echo "deny: advisories were not checked: their database is not on this machine and is not" \
        "fetched here"
fi
