#!/usr/bin/env bash
# Unpacks the archive of static programs in an empty root and runs them there.
source "$(dirname "$0")/common.sh"
name=tierwise-$version-$MUSL
archive=$(one "$name.tar.xz")
mkdir "$work/root"
tar --directory="$work/root" --extract --file="$archive"
for program in bin/tierwise sbin/tierwised; do
    ! readelf --dynamic "$work/root/$name/$program" | grep --quiet NEEDED ||
        fail "$program needs a library"
done
# The limit that docs/install.md promises, and names of functions, which only a debugger reads.
size=$(stat --format=%s "$work/root/$name/bin/tierwise")
[ "$size" -le 15000000 ] || fail "bin/tierwise has $size bytes; allowed: 15 MB"
for program in bin/tierwise sbin/tierwised; do
    ! readelf --section-headers "$work/root/$name/$program" | grep --quiet '\.symtab' ||
        fail "$program is not stripped"
done
# There is no shell, no library and no /proc in it.
inside() { # inside PROGRAM ARGUMENTS...
    local program=$1
    shift
    unshare --root="$work/root" "/$name/$program" "$@"
}
must "redis-ycsb-c: Redis" env --chdir="$work" "$work/root/$name/bin/tierwise" compare \
    --policies static,clock
must "tpp" inside bin/tierwise policies
must "tierwised $version" inside sbin/tierwised --version
must "kernel" sh -c "'$work/root/$name/bin/tierwise' doctor || true"
must "tierwise-compare" man --local-file "$work/root/$name/share/man/man1/tierwise-compare.1"
must '"specVersion": "1.6"' cat "$work/root/$name/sbom.cdx.json"
cmp "$work/root/$name/sbom.cdx.json" "$dist/$name.cdx.json"
echo "test-packages: $(basename "$archive") runs without a system"
