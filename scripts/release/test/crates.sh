#!/usr/bin/env bash
# Builds each crate from its archive, and installs the command as `cargo install` does, but not
# optimised: what the archives' builds compiled serves it too.
source "$(dirname "$0")/common.sh"
VERIFY=1 scripts/release/crates.sh
cargo install --quiet --locked --debug --target-dir "$target" --path crates/tierwise-cli \
    --root "$work/root" --no-track
must "tierwise $version" "$work/root/bin/tierwise" --version
must "tpp" hidden "$work/root/bin/tierwise" policies
echo "test-packages: the crates build from their archives, and cargo install gives the command"
