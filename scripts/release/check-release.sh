#!/usr/bin/env bash
# Compares a release in dist/ with one of the same commit that is made in another directory with
# nothing built. Without a release of the last commit it makes that first. CHECKED names the
# packages (default: all).
source "$(dirname "$0")/environment.sh"
commit=$(git rev-parse HEAD)
[ "$(cat "$dist/COMMIT" 2>/dev/null)" = "$commit" ] || make --no-print-directory release
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone --quiet "$PWD" "$work/another-place"
cd "$work/another-place"
for package in ${CHECKED:-wheel wheel-emt deb tarball image image-dra crates}; do
    env --unset=CARGO_TARGET_DIR --unset=DIST "scripts/release/$package.sh"
done
cd dist
find . -type f -print0 | sort --zero-terminated | xargs --null sha256sum > "$work/sums"
cd "$dist"
sha256sum --check --quiet "$work/sums" >&2 || {
    echo "check-release: these files of commit $commit differ between two builds" >&2
    exit 1
}
echo "check-release: $(wc -l < "$work/sums") files have the same bytes twice"
