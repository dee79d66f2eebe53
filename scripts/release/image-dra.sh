#!/usr/bin/env bash
# Makes the container image of the scheduler's driver (kubernetes/dra) in dist/: an OCI layout in a
# tar file, of one layer, with no base image.
source "$(dirname "$0")/environment.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/root/usr/sbin"
# No path, time or number of a build in the program: the same release of Go makes the same bytes.
(
    cd kubernetes/dra
    CGO_ENABLED=0 GOFLAGS=-mod=readonly go build -trimpath -buildvcs=false \
        -ldflags="-s -w -buildid= -X main.version=$version" -o "$work/root/usr/sbin/tierwise-dra" .
)
# What is in it, beside it. A licence that deny.toml does not allow ends the release.
scripts/release/sbom-go.sh "$dist/tierwise-dra-$version.cdx.json"
oci_image tierwise-dra /usr/sbin/tierwise-dra \
    "Tells the scheduler of Kubernetes how much fast memory its node has"
