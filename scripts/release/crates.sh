#!/usr/bin/env bash
# Makes the crates that a registry would take, in dist/crates/. VERIFY=1 builds each of them from
# its archive, as its user would.
source "$(dirname "$0")/environment.sh"
# Changes that are not committed are packaged too, as in the other packages.
options=(--locked --quiet --allow-dirty)
[ "${VERIFY:-}" ] || options+=(--no-verify)
packages=$(cargo metadata --no-deps --locked --format-version 1 | python3 -c '
import json, sys
packages = json.load(sys.stdin)["packages"]
print(*(package["name"] for package in packages if package["publish"] is None))')
cargo package $(printf -- "--package %s " $packages) "${options[@]}"
mkdir -p "$dist/crates"
rm -f "$dist"/crates/*.crate
for package in $packages; do
    cp "$target/package/$package-$version.crate" "$dist/crates"
done
