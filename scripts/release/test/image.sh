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
# The limit that docs/install.md promises.
[ "$size" -lt 20000000 ] || fail "the image has $size bytes unpacked; allowed: 20 MB"
inside() { unshare --root="$work/bundle/rootfs" /usr/sbin/tierwised "$@"; }
must "tierwised $version" inside --version
must "--dry-run" inside --help
# Nothing in the image but the daemon and the directories that it writes to.
files=$(cd "$work/bundle/rootfs" && find . -type f)
[ "$files" = ./usr/sbin/tierwised ] || fail "found $files; allowed: usr/sbin/tierwised"
echo "test-packages: $(basename "$image") has $size bytes and runs"
