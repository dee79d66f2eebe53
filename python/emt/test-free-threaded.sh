#!/usr/bin/env bash
# Builds a free-threaded CPython, which Debian does not have, and runs the package's tests and
# CPython's own with it. usage: test-free-threaded.sh DIRECTORY [TARBALL]: the arguments of
# build-cpython.sh; an existing interpreter in DIRECTORY is used
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
directory=${1:?usage: test-free-threaded.sh DIRECTORY [TARBALL]}
python=$directory/bin/python3.13
[ -x "$python" ] || "$here/build-cpython.sh" "$directory" - "${2:--}" --disable-gil
"$python" -c 'import sys; assert not sys._is_gil_enabled(); print("free-threaded:", sys.version)'
cd "$here/../.."
PYTHON=$python scripts/test-emt.sh
