#!/usr/bin/env bash
# Reads the image of the scheduler's driver with another program, umoci, and runs the driver in it.
source "$(dirname "$0")/common.sh"
image=$(one "tierwise-dra-$version-oci.tar")
mkdir "$work/layout"
tar --directory="$work/layout" --extract --file="$image"
umoci unpack --rootless --image "$work/layout:$version" "$work/bundle" > "$work/log" 2>&1 ||
    fail "$(cat "$work/log")"
must "/usr/sbin/tierwise-dra" cat "$work/bundle/config.json"
inside() { unshare --root="$work/bundle/rootfs" /usr/sbin/tierwise-dra "$@"; }
must "tierwise-dra $version" inside -version
files=$(cd "$work/bundle/rootfs" && find . -type f)
[ "$files" = ./usr/sbin/tierwise-dra ] || fail "found $files; allowed: usr/sbin/tierwise-dra"
list=$(one "tierwise-dra-$version.cdx.json")
must '"specVersion": "1.6"' cat "$list"
must 'pkg:golang/k8s.io/dynamic-resource-allocation@' cat "$list"
size=$(stat --format=%s "$work/bundle/rootfs/usr/sbin/tierwise-dra")
echo "test-packages: $(basename "$image") has $size bytes and runs"
