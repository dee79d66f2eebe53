"""What helm makes of the chart."""

import re
import subprocess
import tempfile
import textwrap
import unittest
from pathlib import Path

from fleet.chart import (
    CHART,
    DIGEST,
    Refused,
    configuration,
    daemon_sets,
    documents,
    lint,
    rendered,
)
from fleet.parts import REPOSITORY, tested

# Every part of the chart that is off by default.
ALL: dict[str, object] = {
    "hostNetwork": True,
    "dryRun": True,
    "releaseDamon": True,
    "cpuBudgetPercent": 50,
    "cri": {"enabled": True},
    "detect": {"enabled": True},
    "metrics": {
        "podMonitor": {"enabled": True},
        "annotations": {"enabled": True},
        "rules": {"enabled": True},
        "dashboard": {"enabled": True},
    },
    "classes": [
        {
            "name": "gold",
            "floor": "4Gi",
            "cap": "8Gi",
            "weight": 400,
            "p99Ms": 2.5,
            "maxFloor": "8Gi",
            "maxWeight": 400,
            "minP99Ms": 1,
        }
    ],
}

# The driver, whose image has no default either.
DRA: dict[str, object] = {"dra": {"enabled": True, "image": {"digest": DIGEST}}}

# What the driver brings for each mode.
ACCOUNT = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding"}

# Values, and a part of the reason why helm refuses them.
WRONG: list[tuple[dict[str, object], str]] = [
    ({"image": {"digest": "latest"}}, "digest"),
    ({"image": {"tag": "latest"}}, "tag"),
    ({"classes": [{"name": "Gold"}]}, "name"),
    ({"classes": [{"name": "gold", "maxFloor": "1GB"}]}, "maxFloor"),
    ({"classes": [{"name": "gold", "weight": 0}]}, "weight"),
    ({"classes": [{"name": "gold", "floors": "1Gi"}]}, "floors"),
    ({"pods": "some"}, "pods"),
    ({"cri": {"directory": "run/containerd"}}, "directory"),
    ({"cri": {"socket": "../docker.sock"}}, "socket"),
    ({"detect": {"token": "yes"}}, "token"),
    ({"metrics": {"port": 80}}, "port"),
    ({"privileged": True}, "privileged"),
    ({"reservePercent": 101}, "reservePercent"),
    ({"dra": {"enabled": True}}, "digest"),
    ({"dra": {"mode": "webhook"}}, "mode"),
    ({"dra": {"maxClaim": "8GB"}}, "maxClaim"),
    ({"dra": {"kubeletDirectory": "kubelet"}}, "kubeletDirectory"),
]


class TemplateTest(unittest.TestCase):
    """The chart with its default values, with all of its parts, and with wrong values."""

    def test_pods_are_scraped_by_annotation_if_wanted(self) -> None:
        """A Prometheus without the operator finds the pods, and no other one does."""
        wanted = {"metrics": {"annotations": {"enabled": True}, "port": 9999}}
        found = daemon_sets(rendered(wanted))["t"]
        self.assertIn('prometheus.io/scrape: "true"', found)
        self.assertIn('prometheus.io/port: "9999"', found)
        self.assertNotIn("prometheus.io", rendered({}))
        off = {"metrics": {"enabled": False, "annotations": {"enabled": True}}}
        self.assertNotIn("prometheus.io", rendered(off))

    def test_chart_has_no_mistake(self) -> None:
        """helm finds none in the chart and its values."""
        self.assertIn("0 chart(s) failed", lint())

    def test_daemon_takes_its_configuration(self) -> None:
        """The command that checks configurations takes what the chart writes."""
        for values in ({}, ALL, {"metrics": {"enabled": False}}):
            with self.subTest(values=values), tempfile.TemporaryDirectory() as directory:
                file = Path(directory) / "tierwised.toml"
                file.write_text(configuration(rendered(values)))
                command: list[str | Path] = [tested("tierwise"), "config", "check"]
                command += ["--file-only", file]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_daemon_has_the_least_privilege(self) -> None:
        """No value of the chart makes a container privileged or gives one a token."""
        for values in ({}, ALL):
            pods = daemon_sets(rendered(values))
            self.assertEqual(set(pods), {"t", "t-detect"} if values else {"t"})
            for name, pod in pods.items():
                self.assertIn("automountServiceAccountToken: false", pod)
                self.assertNotIn("SYS_ADMIN", pod)
                containers = re.split(r"^ +- name: (?:tierwised|restore|detect)$", pod, flags=re.M)
                self.assertEqual(len(containers), 3 if name == "t" else 2)
                for container in containers[1:]:
                    self.confined(container)
            added = re.findall(r"add: \[(.*)\]", "".join(pods.values()))
            self.assertEqual(len(added), 1, "the daemon alone has capabilities")
            kept = set(re.findall(r"CAP_(\w+)", self.unit()))
            self.assertLessEqual(set(added[0].split(", ")), kept)
        kinds = set(documents(rendered(ALL)))
        self.assertFalse({k for k in kinds if "Role" in k or k in {"Secret", "Job"}}, kinds)

    def confined(self, container: str) -> None:
        """A container has what every one of the chart has."""
        for line in (
            "privileged: false",
            "allowPrivilegeEscalation: false",
            "readOnlyRootFilesystem: true",
            "drop: [ALL]",
        ):
            self.assertIn(line, container)
        self.assertRegex(container, r'image: "\S+@sha256:[0-9a-f]{64}"')

    def test_socket_of_cri_is_mounted_on_request(self) -> None:
        """The daemon has the runtime's powerful socket only if the values ask for it."""
        self.assertNotIn("run/cri", daemon_sets(rendered({}))["t"])
        asked = rendered({"cri": {"enabled": True}})
        self.assertIn("mountPath: /var/run/cri, mountPropagation", daemon_sets(asked)["t"])
        self.assertIn('cri = "/var/run/cri/containerd.sock"', configuration(asked))

    def unit(self) -> str:
        """Returns the capabilities of the systemd unit."""
        text = (REPOSITORY / "packaging" / "tierwised.service").read_text().replace("\\\n", "")
        found = re.search(r"^CapabilityBoundingSet=(.*)$", text, re.MULTILINE)
        assert found is not None
        return found[1]

    def test_every_part_has_its_switch(self) -> None:
        """Resources of other operators are made only if they are asked for."""
        base = {"ConfigMap", "DaemonSet", "FastMemoryClass"}
        policies = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
        self.assertEqual(set(documents(rendered({}))), base | policies)
        self.assertEqual(set(documents(rendered({"admission": {"enabled": False}}))), base)
        more = {"PodMonitor", "PrometheusRule"}
        found = documents(rendered(ALL))
        self.assertEqual(set(found), base | policies | more)
        rules = (CHART / "files" / "rules.yaml").read_text()
        self.assertIn(textwrap.indent(rules, "  ").rstrip(), found["PrometheusRule"])

    def test_token_is_mounted_in_the_driver_alone(self) -> None:
        """The driver has its account's token and no capability, and the daemon has no token."""
        pod = documents(rendered(DRA, "--kube-version", "1.37.2"))["DaemonSet"]
        self.assertIn("automountServiceAccountToken: false", pod)
        at = "mountPath: /var/run/secrets/kubernetes.io/serviceaccount"
        self.assertEqual(pod.count(at), 1)
        daemon, driving = pod.split("- name: dra\n")
        self.assertNotIn(at, daemon)
        driving = driving.split("volumes:")[0]
        self.assertIn("drop: [ALL]", driving)
        self.assertIn("readOnlyRootFilesystem: true", driving)
        self.assertNotIn("add:", driving)
        self.assertNotIn("/sys", driving)

    def test_driver_may_send_claims_alone(self) -> None:
        """The driver has the daemon's socket of claims and not its control socket."""
        text = rendered(DRA, "--kube-version", "1.37.2")
        self.assertIn('claims = "/run/tierwise-claims/claims.sock"', configuration(text))
        daemon, driving = documents(text)["DaemonSet"].split("- name: dra\n")
        driving = driving.split("volumes:")[0]
        self.assertIn("mountPath: /run/tierwise-claims}", daemon)
        self.assertIn("mountPath: /run/tierwise-claims}", driving)
        self.assertNotIn("mountPath: /run/tierwise}", driving)
        self.assertNotIn("claims", configuration(rendered({})))

    def test_nodes_without_apparmor_take_the_pods(self) -> None:
        """No container names the runtime's AppArmor profile, for which a kubelet on a node without
        AppArmor refuses the pod."""
        for name, pod in daemon_sets(rendered({**ALL, **DRA})).items():
            found = re.findall(r"appArmorProfile:\s*\{?type: (\w+)", pod)
            self.assertEqual(found, ["Unconfined"] * 2 if name == "t" else [])

    def test_mode_of_the_driver_follows_the_version(self) -> None:
        """Clusters without claims of capacity get the extended resource."""
        for version, mode in (("1.36.0", "claims"), ("1.35.9", "extended-resource")):
            with self.subTest(version=version):
                found = documents(rendered(DRA, "--kube-version", version))
                self.assertIn(f"-mode={mode}", found["DaemonSet"])
                classes = {"DeviceClass"} if mode == "claims" else set()
                more = set(found) - set(documents(rendered({})))
                self.assertEqual(more, ACCOUNT | classes)
                writes = "nodes/status" in found["ClusterRole"]
                self.assertEqual(writes, mode == "extended-resource")

    def test_wrong_values_are_refused(self) -> None:
        """The schema names the value that is wrong."""
        for values, part in WRONG:
            with self.subTest(values=values), self.assertRaises(Refused) as refused:
                rendered(values)
            self.assertIn(part, str(refused.exception))


if __name__ == "__main__":
    unittest.main()
