#!/usr/bin/env bash
# Builds a CPython whose reference counts have EMT's growth counter.
# usage: growth/build.sh DIRECTORY [TARBALL]: the arguments of ../../build-cpython.sh
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
directory=${1:?usage: growth/build.sh DIRECTORY [TARBALL]}
# The build is static: only a search of the extension's own file distinguishes its mark from the
# interpreter's.
"$here/../../build-cpython.sh" "$directory" "$here/patches" "${2:--}" --disable-test-modules
"$directory/bin/python3.13" -c \
    'import sysconfig; print("growth build:", sysconfig.get_paths()["include"])'
