#!/usr/bin/env bash
# Makes the Debian package of both programs in dist/, by debhelper (packaging/debian).
source "$(dirname "$0")/environment.sh"
build_native
build_recorder

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tierwise-$version
mkdir "$tree"
cp -r packaging/debian "$tree/debian"
cp CHANGELOG.md "$tree"
# The maintainer of a package is who makes it, by the variables of Debian's tools. Without them it
# is a name under which no mail can be received (RFC 6761): there is no promise to answer.
maintainer="${DEBFULLNAME:-Local builds of Tierwise} <${DEBEMAIL:-noreply@tierwise.invalid}>"
MAINTAINER=$maintainer awk '/^Maintainer: / { $0 = "Maintainer: " ENVIRON["MAINTAINER"] } 1' \
    packaging/debian/control > "$tree/debian/control"
time=$(date --rfc-email --date="@$SOURCE_DATE_EPOCH")
cat > "$tree/debian/changelog" <<END
tierwise ($version-1) unstable; urgency=medium

  * Tierwise $version. The changes are in /usr/share/doc/tierwise/changelog.gz.

 -- $maintainer  $time
END

root=$tree/built
scripts/install.sh "$root" /usr "$native" > "$work/installed"
# The other programs' recordings are ten times as large as the rest of the package.
rm -r "$root/usr/share/tierwise"
small_share "$root/usr/share/tierwise"
# debhelper knows where this release has units.
rm -r "$root/usr/lib/systemd"
cp packaging/tierwised.service "$tree/debian/tierwise.tierwised.service"
# Where Debian's zsh looks.
mv "$root/usr/share/zsh/site-functions" "$root/usr/share/zsh/vendor-completions"
install -d "$root/usr/share/doc/tierwise"
scripts/release/sbom.sh "$root/usr/share/doc/tierwise/sbom.cdx.json"

# -d: its compiler is rustup's, not a package.
(cd "$tree" && dpkg-buildpackage --build=binary --no-sign -d > "$work/log" 2>&1) ||
    { cat "$work/log" >&2; exit 1; }
mv "$work"/*.deb "$dist"
