"""The lab: stock Debian kernels with a fast and a slow memory node, booted in QEMU without KVM.

`python3 -m tierlab --help` lists its commands; lab/README.md describes the lab and the limits of
its model. It uses only Python's standard library, so that a machine needs only Debian packages.
"""
