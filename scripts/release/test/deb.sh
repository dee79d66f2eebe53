#!/usr/bin/env bash
# Installs the Debian package into a root of this Debian release, uses it there, and purges it.
source "$(dirname "$0")/common.sh"
package=$(one "tierwise_$version-1_*.deb")
lintian --allow-root --fail-on error,warning --tag-display-limit 0 "$package"

base=$target/debian-root.tar
if [ ! -s "$base" ]; then
    # The smallest root with dpkg. The programs were linked with the libraries of this release.
    suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
    # The name of the file does not say that it is an archive.
    mmdebstrap --quiet --format=tar --variant=essential "$suite" "$base.part"
    mv "$base.part" "$base"
fi
root=$work/root
mkdir "$root"
tar --directory="$root" --exclude='./dev/*' --extract --file="$base"
cp "$package" "$root/tmp/tierwise.deb"
inside() {
    unshare --mount --pid --fork --root="$root" --mount-proc env -i HOME=/root \
        PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"
}
# dpkg's own records and logs change by themselves. /dev is empty: a redirection makes a file there.
content() {
    (cd "$root" && find . \( -path ./proc -o -path ./dev -o -path ./var/lib/dpkg \
        -o -path ./var/log -o -path ./var/cache \) -prune -o -print | sort)
}
content > "$work/before"
inside dpkg --install /tmp/tierwise.deb > "$work/log" 2>&1 || fail "$(cat "$work/log")"

must "redis-ycsb-c: Redis" inside tierwise compare --policies static,clock
must "Redis serving YCSB C" inside tierwise scenario list
must "tierwised $version" inside tierwised --version
must "--dry-run" inside tierwised --help
must "tierwised.toml" inside tierwise config check /etc/tierwise/tierwised.toml
# doctor ends with an error on an unsuitable machine; this test only needs its report.
must "kernel" inside sh -c 'tierwise doctor || true'
for page in man1/tierwise.1 man1/tierwise-compare.1 man8/tierwised.8; do
    must "$(basename "${page%.*}")" man --local-file "$root/usr/share/man/$page.gz"
done
for file in usr/lib/tierwise/libtierwise_recorder.so usr/lib/systemd/system/tierwised.service \
    usr/share/bash-completion/completions/tierwise usr/share/zsh/vendor-completions/_tierwise \
    usr/share/fish/vendor_completions.d/tierwise.fish usr/share/doc/tierwise/copyright \
    usr/share/doc/tierwise/sbom.cdx.json.gz; do
    # Debian 12 and older have the unit below /lib.
    [ -s "$root/$file" ] || [ -s "$root/${file#usr/}" ] || fail "$file is not installed"
done

# As a daemon that ran would leave them.
mkdir -p "$root/var/lib/tierwise" "$root/run/tierwise"
touch "$root/var/lib/tierwise/state.json"
inside dpkg --purge tierwise > "$work/log" 2>&1 || fail "$(cat "$work/log")"
content > "$work/after"
diff "$work/before" "$work/after" >&2 || fail "the package left these files when it was purged"
echo "test-packages: $(basename "$package") installs, works and leaves nothing"
