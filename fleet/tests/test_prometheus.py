"""A real Prometheus that scrapes the daemon's exported metrics with the token."""

import json
import re
import signal
import subprocess
import unittest
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from fleet.machine import DAEMON, FleetTest, free_ports, wait_for
from fleet.parts import REPOSITORY, Program, debian, tested

RULES = REPOSITORY / "packaging" / "helm" / "tierwise" / "files" / "rules.yaml"

METRICS = """\
[metrics]
listen = "127.0.0.1:{port}"
token_file = "{directory}/token"
"""

# Two jobs: one that has the token, and one that has another.
PROMETHEUS = """\
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: tierwise
    authorization: {{credentials_file: "{directory}/token"}}
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
  - job_name: other
    authorization: {{credentials: "another-token-of-a-client"}}
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""

# A tenant of the recorded machine that has 16 MiB, half of them in slow memory.
TENANT = """\
[[tenant]]
name = "shop"
cgroup = "kubepods.slice/*/*/cri-containerd-0a.scope"
floor = "12MiB"
"""

# Loopback is asked directly, whatever proxy the machine has.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class PrometheusTest(FleetTest):
    """One daemon and one Prometheus."""

    def setUp(self) -> None:
        super().setUp()
        self.port, self.web = free_ports(2)
        (self.directory / "token").write_text("dGhlIHRva2VuIG9mIGEgdGVzdA==\n")
        values = {"port": self.port, "rules": RULES}
        self.write("daemon.toml", DAEMON + METRICS, **values)
        self.write("prometheus.yml", PROMETHEUS, **values)

    def prometheus(self) -> Program:
        """Starts Prometheus with an empty database."""
        flags = {
            "config.file": self.directory / "prometheus.yml",
            "storage.tsdb.path": self.directory / "database",
            "web.listen-address": f"127.0.0.1:{self.web}",
        }
        words: list[str | Path] = [f"--{name}={value}" for name, value in flags.items()]
        return self.program("prometheus", [debian("prometheus"), *words])

    def api(self, path: str) -> dict[str, object]:
        """Returns an answer of Prometheus' API; nothing while it does not answer."""
        try:
            with DIRECT.open(f"http://127.0.0.1:{self.web}/api/v1/{path}") as answer:
                found: dict[str, object] = json.load(answer)["data"]
                return found
        except (urllib.error.URLError, ConnectionError):
            return {}

    def value(self, query: str) -> str:
        """Returns the value of the only sample that a query gives; nothing if there is none."""
        found = self.api("query?" + urllib.parse.urlencode({"query": query})).get("result")
        return str(found[0]["value"][1]) if isinstance(found, list) and len(found) == 1 else ""

    def test_prometheus_scrapes_with_the_token_alone(self) -> None:
        """The token admits, another does not, and every rule of the chart runs on the samples."""
        daemon = self.daemon()
        prometheus = self.prometheus()
        parts = (daemon, prometheus)
        wait_for("a scrape", lambda: self.value('up{job="tierwise"}') == "1", *parts)
        wait_for("a refusal", lambda: self.value('up{job="other"}') == "0", *parts)
        self.assertEqual(self.value('count({__name__=~"tierwise_.+",job="other"})'), "")
        wait_for("the metrics", lambda: self.value("tierwise_pods_in_step") == "0", *parts)
        capacity = self.value('max(tierwise_tier_capacity_bytes{tier=~".+"})')
        self.assertGreater(float(capacity), 0)
        wait_for(
            "a recording rule",
            lambda: float(self.value("tierwise:cluster_fast_capacity:bytes") or 0) > 0,
            *parts,
        )
        # No runtime is there, so this alert waits for its five minutes.
        alert = 'ALERTS{alertname="TierwiseRuntimeLost",alertstate="pending"}'
        wait_for("an alert", lambda: self.value(alert) == "1", *parts)
        groups = self.api("rules")["groups"]
        assert isinstance(groups, list)
        health = {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}
        self.assertEqual({name for name, state in health.items() if state != "ok"}, set())
        self.assertGreater(len(health), 10)

    def test_alerts_fire_for_a_daemon(self) -> None:
        """A floor that is not held, a daemon that moves nothing and a lost runtime are alerts of
        Prometheus, by the chart's expressions, and the second ends when the daemon goes on."""
        # Their time before they fire is minutes; all else is the chart's.
        text, count = re.subn(r"^( +)for: \w+$", r"\1for: 1s", RULES.read_text(), flags=re.M)
        self.assertGreaterEqual(count, 5)
        rules = self.directory / "rules.yaml"
        rules.write_text(text)
        values = {"port": self.port, "rules": rules}
        # Pages of a recorded machine cannot move: it only decides.
        self.write("daemon.toml", "dry_run = true\n" + DAEMON + METRICS + TENANT, **values)
        self.write("prometheus.yml", PROMETHEUS, **values)
        parts = (self.daemon(), self.prometheus())
        for name in ("TierwiseFloorNotHeld", "TierwiseRuntimeLost"):
            wait_for(name, lambda name=name: self.fires(name), *parts)
        missing = self.value('tierwise:tenant_floor_missing:bytes{tenant="shop",job="tierwise"}')
        self.assertEqual(float(missing), 4 << 20)
        self.assertFalse(self.fires("TierwiseMovesNothing"))
        self.daemon_command("pause")
        wait_for("TierwiseMovesNothing", lambda: self.fires("TierwiseMovesNothing"), *parts)
        self.daemon_command("resume")
        wait_for("its end", lambda: not self.fires("TierwiseMovesNothing"), *parts)

    def fires(self, alert: str) -> bool:
        """Returns true if Prometheus lists an alert as firing."""
        listed = self.api("alerts").get("alerts")
        rows = listed if isinstance(listed, list) else []
        return any(r["labels"]["alertname"] == alert and r["state"] == "firing" for r in rows)

    def daemon_command(self, word: str) -> None:
        """Gives the daemon a command."""
        socket = self.directory / "run/control.sock"
        command = [str(tested("tierwise")), "daemon", word, "--socket", str(socket)]
        subprocess.run(command, check=True, capture_output=True)

    def test_replaced_token_needs_no_restart(self) -> None:
        """The daemon and Prometheus read the token's file at each scrape."""
        daemon = self.daemon()
        prometheus = self.prometheus()
        parts = (daemon, prometheus)
        wait_for("a scrape", lambda: self.value('up{job="tierwise"}') == "1", *parts)
        (self.directory / "token").write_text("YSBuZXcgdG9rZW4gb2YgYSB0ZXN0\n")
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/metrics")
        request.add_header("Authorization", "Bearer dGhlIHRva2VuIG9mIGEgdGVzdA==")
        with self.assertRaises(urllib.error.HTTPError) as refused:
            DIRECT.open(request)
        self.assertEqual(refused.exception.code, 401)
        refused.exception.close()
        wait_for("a scrape", lambda: self.value('up{job="tierwise"}') == "1", *parts)
        prometheus.signal(signal.SIGTERM)
        self.assertEqual(prometheus.process.wait(), 0)


if __name__ == "__main__":
    unittest.main()
