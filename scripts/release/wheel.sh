#!/usr/bin/env bash
# Makes the wheel of the module `tierwise` and the command `tierwise` in dist/. Both need glibc 2.17
# (manylinux2014); with the dev profile both need this system. They are of one target, because
# results of sweeps are kept by it: the command and the module find each other's.
source "$(dirname "$0")/environment.sh"
scripts/release/tools.sh
options=(--profile "$profile" --locked)
build_native
if [ "$profile" != dev ]; then
    # As build_native does, so that both use what one of them compiled.
    options+=(--zig --target "$GNU" --compatibility manylinux2014)
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# maturin reads data/ beside pyproject.toml: scripts/ and data/ in it go to bin/ and to the root of
# the environment, where the command finds share/tierwise.
cp -r python/pyproject.toml python/README.md python/tierwise "$work"
find "$work" -name __pycache__ -prune -exec rm -r {} +
manifest="manifest-path = \"$PWD/crates/tierwise-py/Cargo.toml\""
sed -i "s#^manifest-path = .*#$manifest\ndata = \"data\"#" "$work/pyproject.toml"
# maturin's own list of libraries names the directory of the build.
printf '[tool.maturin.sbom]\nrust = false\ninclude = ["sbom.cdx.json"]\n' >> "$work/pyproject.toml"
scripts/release/sbom.sh "$work/sbom.cdx.json" tierwise-cli tierwise-py
install -D --mode=755 --strip "$native/tierwise" "$work/data/scripts/tierwise"
small_share "$work/data/data/share/tierwise"
"$native/tierwise" man "$work/man"
mkdir -p "$work/data/data/share/man"
mv "$work/man/man1" "$work/data/data/share/man"
(cd "$work" && PATH=$target/release-venv/bin:$PATH maturin build --quiet "${options[@]}" \
    --out "$work/dist")
mv "$work"/dist/*.whl "$dist"
