#!/usr/bin/env bash
# Writes the list of the Go modules in the scheduler's driver (CycloneDX 1.6) to the file of the
# argument, and fails if one has a licence that deny.toml does not allow.
source "$(dirname "$0")/environment.sh"
cyclonedx=1.10.0
program=$target/tools/cyclonedx-gomod-$cyclonedx
if [ ! -x "$program" ]; then
    mkdir -p "$target/tools/new"
    GOBIN=$target/tools/new GOFLAGS='' GOWORK=off CGO_ENABLED=0 \
        go install "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v$cyclonedx"
    mv "$target/tools/new/cyclonedx-gomod" "$program"
fi
# No number of this run, and licences as their texts say: the same modules make the same bytes.
file=$(realpath "$1")
(
    cd kubernetes/dra
    CGO_ENABLED=0 GOFLAGS=-mod=readonly "$program" app -json -output-version 1.6 \
        -noserial -licenses -assert-licenses -main . -output "$file" . 2> "$file.log"
) || { cat "$file.log" >&2; exit 1; }
rm "$file.log"
"${PYTHON:-python3}" scripts/release/go_licences.py "$file" deny.toml "$version"
