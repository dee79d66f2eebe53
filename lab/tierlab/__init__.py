"""The lab: stock Debian kernels with a fast and a slow memory node, booted in QEMU without KVM.

`python3 -m tierlab --help` lists its commands; lab/README.md describes what it is and what it does
not model. Only Python's standard library is used, so that a machine needs nothing but Debian
packages.
"""
