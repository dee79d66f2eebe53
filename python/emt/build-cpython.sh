#!/usr/bin/env bash
# Builds a CPython 3.13 from Debian's source package.
# usage: build-cpython.sh DIRECTORY PATCHES [TARBALL [CONFIGURE OPTION...]]
#   DIRECTORY  the place of the interpreter (DIRECTORY/bin/python3.13); a few hundred megabytes
#              while it is built
#   PATCHES    a directory with a file `series`, or - for none
#   TARBALL    python3.13_*.orig.tar.xz, if it exists already; without it, or with -,
#              `apt-get source` fetches it, which needs a deb-src line of Debian 13 (trixie) in
#              apt's configuration
# It takes four to eight minutes of CPU time; MAKEFLAGS (for example -j2) is passed on.
set -euo pipefail
directory=${1:?usage: build-cpython.sh DIRECTORY PATCHES [TARBALL [CONFIGURE OPTION...]]}
patches=${2:?a directory of patches, or - for none}
tarball=${3:--}
shift $(($# < 3 ? $# : 3))
mkdir -p "$directory"
directory=$(cd "$directory" && pwd)
work=$directory/build
rm -rf "$work"
mkdir -p "$work/source"
if [ "$tarball" = - ]; then
    (cd "$work" && apt-get source --download-only python3.13)
    tarball=$(ls "$work"/python3.13_*.orig.tar.xz)
fi
tar -xf "$tarball" -C "$work/source" --strip-components=1
if [ "$patches" != - ]; then
    while read -r patch; do
        patch --directory "$work/source" --strip 1 --silent <"$patches/$patch"
    done <"$patches/series"
fi
cd "$work/source"
./configure --quiet --prefix="$directory" "$@"
make --quiet
make --quiet install
rm -rf "$work"
