"""Tests of the node itself: each is the smallest step that can fail."""

import subprocess

from kube import IMAGE, Node, Pod, keep_logs
from tierguest import Guest, test


@test(boot="hmat", timeout_s=900)
def containerd_runs_a_container(guest: Guest) -> None:
    """containerd unpacks an image, and runc starts it."""
    with Node(guest, pods=False) as node:
        printed = node.ctr("run", "--rm", IMAGE, "hello", "/bin/busybox", "echo", "it runs")
        assert printed == "it runs\n", f"{printed}: {node.describe()}"


@test(boot="hmat", timeout_s=1800)
def kubelet_starts_a_static_pod(guest: Guest) -> None:
    """The kubelet starts a pod of its directory, in the control group of its class, and ends it."""
    with Node(guest) as node:
        try:
            words = ["stairs", "mib=32", "hot_mib=8", "pattern=fixed", "pause_us=10000"]
            pod = node.start(Pod("first", words), 32)
            group = node.group(pod)
            assert group and "burstable" in str(group), group
            assert node.processes(pod, "stairs"), node.describe()
            addresses = subprocess.run(
                ["ip", "-4", "addr", "show", "cni0"], capture_output=True, text=True, check=False
            ).stdout
            assert "10.88.0.1/16" in addresses, addresses
        finally:
            keep_logs(node, "first")
