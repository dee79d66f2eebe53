#!/usr/bin/env bash
# Writes the checksums of everything in dist/. `sha256sum --check SHA256SUMS` checks a download.
source "$(dirname "$0")/environment.sh"
cd "$dist"
find . -type f ! -name SHA256SUMS -printf '%P\0' | sort --zero-terminated |
    xargs --null sha256sum > SHA256SUMS
