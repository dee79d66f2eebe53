#!/usr/bin/env bash
# Builds a CPython whose reference counts have EMT's growth counter, from Debian's source package.
# usage: growth/build.sh FOLDER [TARBALL]
#   FOLDER   where the interpreter goes (FOLDER/bin/python3.13); a few hundred megabytes while it is built
#   TARBALL  python3.13_*.orig.tar.xz, if it is there already; otherwise `apt-get source` fetches it, which needs a
#            deb-src line of Debian 13 (trixie) in apt's configuration
# It takes four to eight minutes of processor time; MAKEFLAGS (for example -j2) is passed on.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:?usage: growth/build.sh FOLDER [TARBALL]}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
tarball=${2:-}
work=$folder/build
rm -rf "$work"
mkdir -p "$work/source"
if [ -z "$tarball" ]; then
    (cd "$work" && apt-get source --download-only python3.13)
    tarball=$(ls "$work"/python3.13_*.orig.tar.xz)
fi
tar -xf "$tarball" -C "$work/source" --strip-components=1
while read -r patch; do
    patch --directory "$work/source" --strip 1 --silent <"$here/patches/$patch"
done <"$here/patches/series"
cd "$work/source"
# Static: an extension's own mark is told from the interpreter's by looking in the extension's file only.
./configure --quiet --prefix="$folder" --disable-test-modules
make --quiet
make --quiet install
rm -rf "$work"
"$folder/bin/python3.13" -c 'import sysconfig; print("growth build:", sysconfig.get_paths()["include"])'
