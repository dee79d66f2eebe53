"""A node of Kubernetes for a test: containerd, a kubelet without an API server, and its pods."""

import contextlib
import json
import shutil
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tierguest import Guest
from tierguest.cgroup import ROOT
from tierguest.files import node_table, read, write
from tierguest.program import Program

PARTS = Path("/lab/job/node")
# A name below a domain that is no one's (RFC 6761), so that no runtime can pull it.
IMAGE = "tierwise.test/workloads:v1"
MIB = 1 << 20

# Seconds for one step of a container's start. The guest's CPU is emulated, and its host is busy.
PATIENCE_S = 600

NRI = "/run/nri/nri.sock"
CRI = "/run/containerd/containerd.sock"

CONTAINERD = """\
version = 2
[grpc]
  address = "{cri}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{image}"
  disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/lab/job/node/cni"
  conf_dir = "/etc/cni/net.d"
[plugins."io.containerd.nri.v1.nri"]
  disable = {without_nri}
  socket_path = "{nri}"
"""

# No address is translated, so that no rule of a packet filter is needed.
NETWORK = {
    "cniVersion": "1.0.0",
    "name": "pods",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": True,
            "ipMasq": False,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": "10.88.0.0/16"}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }
    ],
}

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
MANIFESTS = Path("/etc/kubernetes/manifests")

KUBELET = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "staticPodPath": str(MANIFESTS),
    "fileCheckFrequency": "1s",
    "syncFrequency": "5s",
    "cgroupDriver": "cgroupfs",
    "containerRuntimeEndpoint": f"unix://{CRI}",
    "runtimeRequestTimeout": "10m",
    # No client asks it anything.
    "enableServer": False,
    "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    # The guest's memory is full on purpose.
    "evictionHard": {"memory.available": "1Mi"},
    "imageGCHighThresholdPercent": 100,
}


@dataclass
class Pod:
    """A pod with one container."""

    name: str
    command: Sequence[str]
    annotations: Mapping[str, str] = field(default_factory=dict)
    request_mib: int = 64
    limit_mib: int = 0
    """The container's memory limit; 0 is none."""
    cpu: str = ""
    """The container's request and limit of CPU, which a Guaranteed pod needs; empty is none."""
    host_network: bool = False
    claim: str = ""
    """The ResourceClaimTemplate of its fast memory; empty is none."""
    uid: str = field(default_factory=lambda: str(uuid.uuid4()))

    def manifest(self) -> dict[str, Any]:
        """Returns it as the kubelet reads it."""
        resources: dict[str, Any] = {"requests": {"memory": f"{self.request_mib}Mi"}}
        if self.limit_mib:
            resources["limits"] = {"memory": f"{self.limit_mib}Mi"}
        if self.cpu:
            for kind in resources.values():
                kind["cpu"] = self.cpu
        claims: list[dict[str, str]] = []
        if self.claim:
            resources["claims"] = [{"name": "fast"}]
            claims = [{"name": "fast", "resourceClaimTemplateName": self.claim}]
        container = {
            "name": "main",
            "image": IMAGE,
            "imagePullPolicy": "Never",
            "command": list(self.command),
            "resources": resources,
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self.name,
                "namespace": "shop",
                "uid": self.uid,
                "annotations": dict(self.annotations),
            },
            "spec": {
                "containers": [container],
                "hostNetwork": self.host_network,
                "resourceClaims": claims,
                "terminationGracePeriodSeconds": 1,
            },
        }


class Node:
    """containerd and a kubelet. Use with `with`; its end removes every pod."""

    def __init__(
        self,
        guest: Guest,
        *,
        nri: bool = True,
        pods: bool = True,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self.guest = guest
        self.nri = nri
        self.with_kubelet = pods
        self.settings = dict(settings or {})
        """Further settings of the kubelet."""
        self.pods: dict[str, Pod] = {}
        self.containerd: Program | None = None
        self.kubelet: Program | None = None

    def __enter__(self) -> "Node":
        # khugepaged has the lowest priority. On a busy emulated CPU it held the memory of a pod for
        # minutes, in which nothing of it can move.
        write(HUGE_PAGES, "never")
        for path in (MANIFESTS, Path("/etc/cni/net.d"), Path("/etc/containerd"), Path("/opt")):
            path.mkdir(parents=True, exist_ok=True)
        Path("/etc/cni/net.d/pods.conflist").write_text(json.dumps(NETWORK))
        Path("/etc/resolv.conf").touch()
        self.start_containerd()
        self.load_image("workloads.tar", IMAGE.partition(":")[0])
        if self.with_kubelet:
            self.start_kubelet()
        return self

    def __exit__(self, *_: object) -> None:
        self.forget_all()
        if not self.running():
            return
        self.guest.wait_until(lambda: not self.tasks(), PATIENCE_S, self.describe, every_s=1)
        for program in (self.kubelet, self.containerd):
            if program:
                program.stop()

    def start_containerd(self) -> None:
        """Starts containerd, and waits until it answers."""
        config = self.guest.directory / "containerd.toml"
        without = str(not self.nri).lower()
        text = CONTAINERD.format(cri=CRI, nri=NRI, image=IMAGE, without_nri=without)
        config.write_text(text)
        self.containerd = self.guest.start("containerd", "--config", str(config))
        self.guest.wait_until(lambda: self.ctr("version") is not None, PATIENCE_S, self.describe, 1)

    def start_kubelet(self) -> None:
        """Starts the kubelet."""
        config = self.guest.directory / "kubelet.json"
        config.write_text(json.dumps({**KUBELET, **self.settings}))
        self.kubelet = self.guest.start(
            "kubelet",
            f"--config={config}",
            "--hostname-override=lab",
            *self.kubelet_words(),
            "--v=2",
        )

    def kubelet_words(self) -> list[str]:
        """Returns further flags of the kubelet."""
        return ["--node-labels=tierwise.io/tiers=true"]

    def running(self) -> bool:
        """Returns true if containerd runs."""
        return self.containerd is not None and self.containerd.running()

    def ctr(self, *words: str) -> str | None:
        """Runs containerd's own client and returns what it printed; nothing if it fails."""
        command = ["ctr", "--address", CRI, "--namespace", "k8s.io", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout if done.returncode == 0 else None

    def load_image(self, archive: str, name: str) -> None:
        """Gives containerd the image of this name in an archive, unless it has it."""
        if not any(known.startswith(f"{name}:") for known in self.images()):
            words = ("images", "import", "--base-name", name, str(PARTS / archive))
            assert self.ctr(*words) is not None, f"{archive} was not loaded: {self.describe()}"
        assert any(known.startswith(f"{name}:") for known in self.images()), self.images()

    def images(self) -> list[str]:
        """Returns the names of containerd's images."""
        return (self.ctr("images", "ls", "-q") or "").split()

    def tasks(self) -> list[str]:
        """Returns the containers that run."""
        return (self.ctr("tasks", "ls", "-q") or "").split()

    def add(self, pod: Pod) -> Pod:
        """Gives the kubelet a pod."""
        self.pods[pod.name] = pod
        self.write(pod.name, pod.manifest())
        return pod

    def write(self, name: str, manifest: object) -> None:
        """Writes a manifest beside its file and renames it."""
        beside = MANIFESTS.parent / f"{name}.new"
        beside.write_text(json.dumps(manifest))
        beside.rename(MANIFESTS / f"{name}.json")

    def start(self, pod: Pod, resident_mib: int = 0) -> Pod:
        """Gives the kubelet a pod, and waits until it has that much memory."""
        self.add(pod)
        least = max(resident_mib * MIB, 1)
        self.guest.wait_until(
            lambda: sum(self.on_nodes(pod)) >= least, PATIENCE_S, self.describe, every_s=1
        )
        return pod

    def forget(self, name: str) -> None:
        """Takes a pod's manifest away from the kubelet, which then ends the pod."""
        self.pods.pop(name, None)
        with contextlib.suppress(FileNotFoundError):
            (MANIFESTS / f"{name}.json").unlink()

    def forget_all(self) -> None:
        """Takes all manifests away from the kubelet."""
        for name in list(self.pods):
            self.forget(name)
        for file in MANIFESTS.iterdir():
            file.unlink()

    def tenant(self, pod: str) -> str:
        """Returns the name of a pod's tenant: the kubelet adds its own to that of a static pod."""
        return f"shop/{pod}-lab"

    def group(self, pod: Pod) -> Path | None:
        """Returns the control group of a pod, if the kubelet has made it."""
        found = list((ROOT / "kubepods").glob(f"**/pod{pod.uid}"))
        return found[0] if found else None

    def on_nodes(self, pod: Pod) -> list[int]:
        """Returns the bytes of a pod's anonymous memory by node (memory.numa_stat)."""
        group = self.group(pod)
        try:
            return node_table(group / "memory.numa_stat")["anon"] if group else [0, 0]
        except OSError:
            return [0, 0]

    def fast_mib(self, pod: Pod) -> float:
        """Returns the MiB of a pod's memory on the fast node."""
        return self.on_nodes(pod)[0] / MIB

    def processes(self, pod: Pod, name: str) -> list[int]:
        """Returns the processes of a pod with this command name."""
        group = self.group(pod)
        found = []
        for file in group.glob("**/cgroup.procs") if group else ():
            for pid in read(file).split():
                with contextlib.suppress(OSError):
                    if read(f"/proc/{pid}/comm") == name:
                        found.append(int(pid))
        return found

    def describe(self) -> str:
        """Describes pods, containers and the ends of logs, for a failure's message."""
        held = {name: [b // MIB for b in self.on_nodes(pod)] for name, pod in self.pods.items()}
        logs = []
        for program in (self.kubelet, self.containerd):
            if program:
                lines = program.printed().splitlines()
                wrong = [line for line in lines if "rror" in line or line[:1] in "EF"]
                logs.append(f"{program.words[0]}: {wrong[-6:]}")
        return f"pods {held}, {len(self.tasks())} containers; {logs}"


def keep(name: str, text: str) -> None:
    """Leaves a file for the host."""
    Path("/results", name).write_text(text)


def keep_logs(node: Node, test: str) -> None:
    """Leaves the logs of a node for the host."""
    for program in (node.kubelet, node.containerd):
        if program and program.output.exists():
            shutil.copy(program.output, Path("/results", f"{test}-{program.words[0]}.log"))


__all__ = ["Node", "Pod", "keep", "keep_logs", "write"]
