#!/usr/bin/env bash
# Builds the core for a machine without an operating system and checks that the result imports
# nothing. A clock, a file or a random source would be an import from "env".
set -euo pipefail
cd "$(dirname "$0")/.."
cargo rustc --quiet -p tierwise-core --lib --target wasm32-unknown-unknown --crate-type cdylib
wasm=${CARGO_TARGET_DIR:-target}/wasm32-unknown-unknown/debug/tierwise_core.wasm
imports=$(python3 - "$wasm" <<'PY'
"""Prints module.name of every import of a WebAssembly binary (section 2 of its format)."""
import sys

data = open(sys.argv[1], "rb").read()
assert data[:4] == b"\0asm", "not a WebAssembly binary"


def number(at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at


at = 8
while at < len(data):
    section, (size, body) = data[at], number(at + 1)
    if section == 2:
        count, here = number(body)
        length, here = number(here)
        print(count, data[here : here + length].decode())
    at = body + size
PY
)
if [ -n "$imports" ]; then
    echo "tierwise-core is not pure: its WebAssembly build imports ($imports)" >&2
    exit 1
fi
echo "tierwise-core is pure: its WebAssembly build imports nothing"
