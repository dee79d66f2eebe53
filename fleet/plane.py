"""A control plane on the host for a kubelet in a guest.

The guest's network (lab/tierlab/network.py) has the API server under the address that the API
server gives its own service, so that pods find it as in any cluster, without a kube-proxy. Under a
second address the guest has kubectl and helm of the host: an emulated CPU takes a minute to start
either.
"""

import json
import socketserver
import subprocess
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from tierlab.network import Network

from fleet.chart import CHART
from fleet.cluster import NAMESPACE, ClusterTest
from fleet.machine import wait_for
from fleet.parts import module

# The first address of this range is that of the API server's service.
SERVICES = "10.0.2.96/28"
API = "10.0.2.97:443"
COMMANDS = "10.0.2.98:80"

# The node's name, and the token of its kubelet.
NODE = "lab"
KUBELET_TOKEN = "kubelet-token"

# The release.
RELEASE = "t"


class Plane(ClusterTest):
    """etcd, an API server with the admission of a real cluster, a scheduler, and all controllers.
    It is no test: `fleet.node` starts it beside a guest."""

    users = ClusterTest.users + f"{KUBELET_TOKEN},system:node:{NODE},2,system:nodes\n"
    flags = (
        "--enable-admission-plugins=NodeRestriction",
        f"--service-cluster-ip-range={SERVICES}",
    )
    controllers = "*"

    def runTest(self) -> None:
        """Does nothing."""

    def start(self, values: dict[str, object]) -> Network:
        """Starts all parts. Returns the network of a guest in which they are, and the host's helm
        with the chart and these values."""
        self.setUp()
        manager = self.controller_manager(
            f"--root-ca-file={self.directory / 'certificates' / 'apiserver.crt'}",
            f"--service-account-private-key-file={self.directory / 'accounts.key'}",
            # An emulated kubelet is late without being gone.
            "--node-monitor-grace-period=15m",
        )
        scheduler = self.scheduler()
        (self.directory / "values.json").write_text(json.dumps(values))
        commands = self._serve()
        # A controller makes it in each namespace, with the certificate that pods trust.
        wait_for(
            "the certificate of the API server",
            lambda: "kube-root-ca.crt" in self.kubectl("get", "configmaps"),
            manager,
            scheduler,
        )
        return Network({API: f"127.0.0.1:{self.api}", COMMANDS: str(commands)})

    def helm(self, verb: str, *words: str) -> tuple[int, str]:
        """Runs helm on the release; returns its status and all that it printed."""
        command: list[str | Path] = [module("helm"), verb, RELEASE]
        if verb in ("install", "upgrade"):
            command += [CHART, "--values", self.directory / "values.json"]
        command += ["--namespace", NAMESPACE]
        command += ["--kubeconfig", self.directory / "admin.kubeconfig", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def _serve(self) -> Path:
        """Runs kubectl and helm for the guest. The socket is in a directory of this user alone."""
        path = self.directory / "commands.sock"
        handler = type("Handler", (_Handler,), {"plane": self})
        server = _Server(str(path), handler)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return path


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


class _Handler(BaseHTTPRequestHandler):
    """Answers POST /kubectl and /helm: {"words": [...], "given": ...} to {"status", "printed"}."""

    plane: Plane

    def do_POST(self) -> None:
        """Runs a command."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/helm":
            status, printed = self.plane.helm(*asked["words"])
        else:
            status, printed = self.plane.kubectl_status(*asked["words"], given=asked["given"])
        body = json.dumps({"status": status, "printed": printed}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Prints nothing."""
