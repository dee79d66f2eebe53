#!/usr/bin/env bash
# Makes the archive of static programs in dist/, with the list of what they contain: both programs
# run on any Linux of this processor, and find their files beside themselves.
source "$(dirname "$0")/environment.sh"
build_static
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
name=tierwise-$version-$MUSL
build_recorder
scripts/install.sh "$work/system" "" "$static" > "$work/installed"
root=$work/tree/$name
mkdir -p "$root"
mv "$work/system/bin" "$work/system/sbin" "$work/system/lib" "$work/system/share" "$root"
rm -r "$root/share/tierwise"
small_share "$root/share/tierwise"
install -D --mode=644 -t "$root" CHANGELOG.md LICENSE LICENSE-APACHE LICENSE-MIT README.md \
    packaging/tierwised.service
install -D --mode=644 recorder/LICENSE "$root/lib/tierwise/LICENSE"
scripts/release/sbom.sh "$root/sbom.cdx.json"
cp "$root/sbom.cdx.json" "$dist/$name.cdx.json"
# xz: half the size of gzip. One thread: the result of several depends on their number.
archive "$work/tree" | xz --threads=1 > "$dist/$name.tar.xz"
