#!/usr/bin/env bash
# Installs the built files: install.sh DESTDIR PREFIX [BUILT], where BUILT is the directory of the
# programs. An existing configuration stays as it is.
set -euo pipefail
cd "$(dirname "$0")/.."
destination=$1
prefix=$2
built=${3:-${CARGO_TARGET_DIR:-target}/release}
root=$destination$prefix
# An absolute path, because the files below are copied from within their directories.
share=$(realpath --canonicalize-missing "$root/share/tierwise")

install -D --mode=755 "$built/tierwise" "$root/bin/tierwise"
install -D --mode=755 "$built/tierwised" "$root/sbin/tierwised"
# The command finds both relative to its own place: ../lib/tierwise and ../share/tierwise.
install -D --mode=644 --target-directory="$root/lib/tierwise" recorder/build/libtierwise_recorder.so
for directory in scenarios plans sweeps traces profiles models; do
    (cd "$directory" && find . -type f -exec install -D --mode=644 {} "$share/$directory/{}" \;)
done
"$built/tierwise" man "$root/share/man"
install -d "$root/share/bash-completion/completions" "$root/share/zsh/site-functions" \
    "$root/share/fish/vendor_completions.d"
"$built/tierwise" completions bash > "$root/share/bash-completion/completions/tierwise"
"$built/tierwise" completions zsh > "$root/share/zsh/site-functions/_tierwise"
"$built/tierwise" completions fish > "$root/share/fish/vendor_completions.d/tierwise.fish"

# The unit gets the programs' paths below this prefix.
install -d "$destination/usr/lib/systemd/system"
sed "s#/usr/sbin/#$prefix/sbin/#; s#/usr/bin/#$prefix/bin/#" packaging/tierwised.service \
    > "$destination/usr/lib/systemd/system/tierwised.service"

install -d --mode=755 "$destination/etc/tierwise"
if [ ! -e "$destination/etc/tierwise/tierwised.toml" ]; then
    "$built/tierwise" config example > "$destination/etc/tierwise/tierwised.toml"
fi
echo "installed below ${destination:-/}: systemctl enable --now tierwised starts the daemon;" \
    "it has no tenants until its configuration names some"
