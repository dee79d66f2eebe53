#!/usr/bin/env bash
# Makes the wheel of tierwise-emt in dist/, for the interpreter PYTHON (default python3): it knows
# that interpreter's objects, so there is one wheel for each version. It needs glibc 2.17.
source "$(dirname "$0")/environment.sh"
scripts/release/tools.sh
venv=$target/release-venv
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# It builds from a copy, so that no files are left in the sources. Its path is part of no result.
cp -r python/emt "$work/emt"
find "$work/emt" \( -name __pycache__ -o -name build -o -name '*.egg-info' \) -prune \
    -exec rm -r {} +
"$python" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check --only-binary=:all: \
    setuptools==84.2.1 wheel==0.48.0
# Zig links against the symbols of an old glibc.
compiler="$venv/bin/python -m ziglang cc -target x86_64-linux-gnu.2.17"
(cd "$work/emt" && CC=$compiler LDSHARED="$compiler -shared $NO_DEBUG" TIERWISE_EMT_REQUIRE_EXTENSION=1 \
    TIERWISE_EMT_CFLAGS="-ffile-prefix-map=$work=/tierwise -g0" \
    "$work/venv/bin/pip" wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps \
    --wheel-dir "$work/plain" .)
PATH=$venv/bin:$PATH auditwheel repair --plat manylinux_2_17_x86_64 \
    --wheel-dir "$work/wheel" "$work"/plain/*.whl > "$work/log" 2>&1 ||
    { cat "$work/log" >&2; exit 1; }
mv "$work"/wheel/*.whl "$dist"
