#!/usr/bin/env bash
# Builds tierwise.emt for the lab's guests (Debian 13's Python 3.13) and copies it beside their
# programs, where lab/tests/emt.py finds it. The headers are Debian's, unpacked once into the lab's
# directory; nothing is installed.
set -euo pipefail
cd "$(dirname "$0")/../.."
lab=${TIERLAB_TARGET:-$PWD/target/lab}
site=$lab/programs/emt-site
headers=$lab/emt-headers
if [ ! -e "$headers/usr/include/python3.13/Python.h" ]; then
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    PYTHONPATH=lab python3 - "$scratch" <<'PYTHON'
import sys
from pathlib import Path
from tierlab.apt import Apt

directory = Path(sys.argv[1])
Apt(directory / "apt").get("emt", "download", "libpython3.13-dev", cwd=directory)
PYTHON
    rm -rf "$headers"
    dpkg-deb -x "$scratch"/libpython3.13-dev_*.deb "$headers"
fi
rm -rf "$site"
mkdir -p "$site"
cp -r python/emt/src/tierwise "$site/tierwise"
find "$site" -name __pycache__ -prune -exec rm -rf {} +
gcc -std=gnu11 -O2 -Wall -Wextra -Werror -fPIC -fvisibility=hidden -shared \
    -I"$headers/usr/include/python3.13" -I"$headers/usr/include" \
    -o "$site/tierwise/emt/_emt.cpython-313-x86_64-linux-gnu.so" python/emt/csrc/*.c
echo "emt: $site"
