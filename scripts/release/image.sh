#!/usr/bin/env bash
# Makes the container image of the daemon in dist/: an OCI layout in a tar file, of one layer, with
# no base image. It has the command, too, for who looks into a pod. `podman load`, `skopeo` and `ctr
# images import` read it.
source "$(dirname "$0")/environment.sh"
build_static
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
install -D --mode=755 --target-directory="$work/root/usr/sbin" "$static"/tierwise{d,}
install -d --mode=700 "$work/root/run/tierwise" "$work/root/var/lib/tierwise"
install -d "$work/root/etc/tierwise"
install -d --mode=1777 "$work/root/tmp"
oci_image tierwised /usr/sbin/tierwised "Shares this host's fast and slow memory among its tenants"
