#!/usr/bin/env bash
# Builds a CPython whose reference counts have EMT's growth counter.
# usage: growth/build.sh DIRECTORY [TARBALL]: as ../build-cpython.sh has them
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
directory=${1:?usage: growth/build.sh DIRECTORY [TARBALL]}
# Static: an extension's own mark is distinguished from the interpreter's by searching the
# extension's file only.
"$here/../build-cpython.sh" "$directory" "$here/patches" "${2:--}" --disable-test-modules
"$directory/bin/python3.13" -c \
    'import sysconfig; print("growth build:", sysconfig.get_paths()["include"])'
