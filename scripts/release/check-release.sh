#!/usr/bin/env bash
# Makes a release of the last commit twice, in two directories with nothing built, and compares the
# bytes. CHECKED names the packages (default: all).
source "$(dirname "$0")/environment.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for copy in first the-second; do
    git clone --quiet "$PWD" "$work/$copy"
    for package in ${CHECKED:-wheel wheel-emt deb tarball image crates}; do
        env --unset=CARGO_TARGET_DIR --unset=DIST "$work/$copy/scripts/release/$package.sh"
    done
    env --unset=CARGO_TARGET_DIR --unset=DIST "$work/$copy/scripts/release/checksums.sh"
    # It is several gigabytes.
    rm -rf "$work/$copy/target"
done
diff "$work/first/dist/SHA256SUMS" "$work/the-second/dist/SHA256SUMS" >&2 || {
    echo "check-release: these files differ between two builds" >&2
    exit 1
}
echo "check-release: $(wc -l < "$work/first/dist/SHA256SUMS") files have the same bytes twice"
