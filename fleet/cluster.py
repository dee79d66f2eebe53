"""A control plane of Kubernetes without nodes: etcd, an API server, and further parts by need."""

import json
import os
import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from fleet.chart import CHART, rendered
from fleet.machine import PlaceTest, free_ports, wait_for
from fleet.parts import KUBERNETES, Program, debian, kubernetes, module

# The namespace of the chart.
NAMESPACE = "tierwise"

# Requests a second of a part that is one of few clients here: no limit that a test could notice.
RATE = "2000"

KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters:
- name: test
  cluster: {{server: "https://127.0.0.1:{port}", insecure-skip-tls-verify: true}}
users:
- name: user
  user: {{token: "{token}"}}
contexts:
- name: test
  context: {{cluster: test, user: user}}
current-context: test
"""

SCHEDULER = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: false}}
clientConnection: {{kubeconfig: "{directory}/admin.kubeconfig", qps: {rate}, burst: {rate}}}
"""

# A node is ready at once, and so is a pod that the scheduler has placed.
STAGES = """\
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: node}
spec:
  resourceRef: {apiGroup: v1, kind: Node}
  selector:
    matchExpressions:
    - {key: '.status.conditions.[] | select( .type == "Ready" ) | .status', operator: NotIn,
       values: ["True"]}
  next:
    statusTemplate: |
      conditions:
      - {type: Ready, status: "True", reason: Kwok, lastHeartbeatTime: {{ Now | Quote }},
         lastTransitionTime: {{ Now | Quote }}}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
    - {key: .status.phase, operator: In, values: [Pending]}
  next:
    statusTemplate: |
      phase: Running
      conditions:
      - {type: Ready, status: "True", lastTransitionTime: {{ Now | Quote }}}
"""


class ClusterTest(PlaceTest):
    """One API server. Pods stay pending until a test starts a scheduler."""

    # Users with their tokens and groups.
    users = "admin-token,admin,1,system:masters\n"
    # Flags of the API server. No controller makes the account of a namespace here, nor removes a
    # node's taint.
    flags: tuple[str, ...] = ("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",)
    # The controllers that a test needs: the one that makes a pod's claims from their templates.
    controllers = "resourceclaim-controller"

    def setUp(self) -> None:
        super().setUp()
        self.api, client, peer = free_ports(3)
        etcd = f"http://127.0.0.1:{client}"
        database = self.program(
            "etcd",
            [
                debian("etcd-server"),
                f"--data-dir={self.directory / 'etcd'}",
                f"--listen-client-urls={etcd}",
                f"--advertise-client-urls={etcd}",
                f"--listen-peer-urls=http://127.0.0.1:{peer}",
                # A test's data need not outlive the machine.
                "--unsafe-no-fsync",
            ],
        )
        key = self.directory / "accounts.key"
        subprocess.run(["openssl", "genrsa", "-out", key], check=True, capture_output=True)
        (self.directory / "tokens").write_text(self.users)
        self.kubeconfig("admin", "admin-token")
        self.server = self.program(
            "kube-apiserver",
            [
                kubernetes("kube-apiserver"),
                f"--etcd-servers={etcd}",
                f"--secure-port={self.api}",
                "--bind-address=127.0.0.1",
                f"--cert-dir={self.directory / 'certificates'}",
                f"--token-auth-file={self.directory / 'tokens'}",
                "--authorization-mode=Node,RBAC",
                "--service-account-issuer=tierwise.test",
                f"--service-account-key-file={key}",
                f"--service-account-signing-key-file={key}",
                *self.flags,
            ],
        )
        wait_for("the API server", self.ready, database, self.server)
        wait_for("a namespace", lambda: "default" in self.kubectl("get", "namespaces"), self.server)

    def kubeconfig(self, name: str, token: str) -> Path:
        """Writes the file that names the API server for a user with a token."""
        self.write(f"{name}.kubeconfig", KUBECONFIG, port=self.api, token=token)
        return self.directory / f"{name}.kubeconfig"

    def scheduler(self) -> Program:
        """Starts the scheduler."""
        self.write("scheduler.yaml", SCHEDULER, rate=RATE)
        command: list[str | Path] = [kubernetes("kube-scheduler"), "--secure-port=0"]
        command += [f"--config={self.directory / 'scheduler.yaml'}"]
        return self.program("kube-scheduler", command)

    def controller_manager(self, *flags: str) -> Program:
        """Starts the controllers."""
        command: list[str | Path] = [kubernetes("kube-controller-manager"), "--secure-port=0"]
        command += [f"--kubeconfig={self.directory / 'admin.kubeconfig'}", "--leader-elect=false"]
        command += [f"--controllers={self.controllers}", *flags]
        command += [f"--kube-api-qps={RATE}", f"--kube-api-burst={RATE}"]
        return self.program("kube-controller-manager", command)

    def kwok(self) -> Program:
        """Starts what plays the kubelets of all nodes."""
        (self.directory / "stages.yaml").write_text(STAGES)
        command: list[str | Path] = [module("kwok"), "--manage-all-nodes=true"]
        command += [f"--config={self.directory / 'stages.yaml'}"]
        command += [f"--kubeconfig={self.directory / 'admin.kubeconfig'}"]
        return self.program("kwok", command)

    def ready(self) -> bool:
        """True if the API server serves all that it has."""
        return self.kubectl("get", "--raw", "/readyz") == "ok"

    def kubectl(self, *words: str, given: object = None, token: str = "admin-token") -> str:
        """Runs kubectl, and returns all that it printed."""
        return self.kubectl_status(*words, given=given, token=token)[1]

    def kubectl_status(
        self, *words: str, given: object = None, token: str = "admin-token"
    ) -> tuple[int, str]:
        """Runs kubectl, and returns its status and all that it printed."""
        server = f"--server=https://127.0.0.1:{self.api}"
        command = [kubernetes("kubectl"), server, f"--token={token}"]
        command += ["--insecure-skip-tls-verify=true", f"--cache-dir={self.directory / 'cache'}"]
        done = subprocess.run(
            [*map(str, command), *words],
            input=json.dumps(given) if given is not None else None,
            env={**os.environ, "KUBECONFIG": os.devnull},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def request(
        self,
        method: str,
        path: str,
        given: object = None,
        token: str = "admin-token",
        content: str = "application/json",
    ) -> dict[str, Any]:
        """Sends one request, without the half second that kubectl takes to start. Returns the
        answer, which is a Status where the API server refuses."""
        request = urllib.request.Request(
            f"https://127.0.0.1:{self.api}{path}",
            method=method,
            data=None if given is None else json.dumps(given).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": content},
        )
        # The certificate is the server's own, and the server is on loopback.
        context = ssl._create_unverified_context()
        try:
            with urllib.request.urlopen(request, context=context, timeout=120) as answer:
                found: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as refused:
            found = json.load(refused)
        return found

    def install(self, values: dict[str, object]) -> None:
        """Installs the chart with a test's values."""
        self.kubectl("create", "namespace", NAMESPACE)
        self.assertIn("created", self.kubectl("create", "-f", str(CHART / "crds")))
        words = ["--namespace", NAMESPACE, "--kube-version", KUBERNETES]
        (self.directory / "rendered.yaml").write_text(rendered(values, *words))

        def applied() -> bool:
            found = self.kubectl("apply", "-f", str(self.directory / "rendered.yaml"))
            return "rror" not in found

        # The API server serves a new resource after a moment.
        wait_for("the chart", applied, self.server)

    def refusal(self, given: object, token: str = "admin-token") -> str:
        """Returns the reason why the API server refuses an object; nothing if it does not."""
        found = self.kubectl("create", "--dry-run=server", "-f", "-", given=given, token=token)
        return "" if "created (server dry run)" in found else found
