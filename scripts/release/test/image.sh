#!/usr/bin/env bash
# Reads the container image with another program, umoci, unpacks it and runs the daemon in it.
source "$(dirname "$0")/common.sh"
image=$(one "tierwised-$version-oci.tar")
mkdir "$work/layout"
tar --directory="$work/layout" --extract --file="$image"
umoci unpack --rootless --image "$work/layout:$version" "$work/bundle" > "$work/log" 2>&1 ||
    fail "$(cat "$work/log")"
must "/usr/sbin/tierwised" cat "$work/bundle/config.json"
must "\"org.opencontainers.image.version\": \"$version\"" cat "$work/bundle/config.json"
size=$(du --summarize --apparent-size --bytes "$work/bundle/rootfs" | cut -f1)
packed=$(stat --format=%s "$image")
# The limits that docs/install.md promises.
[ "$packed" -lt 20000000 ] || fail "the image has $packed bytes; allowed: 20 MB"
[ "$size" -lt 30000000 ] || fail "the image has $size bytes unpacked; allowed: 30 MB"
inside() { unshare --root="$work/bundle/rootfs" /usr/sbin/tierwised "$@"; }
must "tierwised $version" inside --version
must "--dry-run" inside --help
must "tierwise $version" unshare --root="$work/bundle/rootfs" /usr/sbin/tierwise --version
# Nothing in the image but both programs and the directories that the daemon writes to.
files=$(cd "$work/bundle/rootfs" && find . -type f | sort | tr '\n' ' ')
[ "$files" = "./usr/sbin/tierwise ./usr/sbin/tierwised " ] ||
    fail "found $files; allowed: usr/sbin/tierwise, usr/sbin/tierwised"
echo "test-packages: $(basename "$image") has $packed bytes, $size unpacked, and runs"
