"""A real Prometheus that scrapes the daemon's exported metrics with the token."""

import json
import signal
import unittest
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from fleet.machine import DAEMON, FleetTest, free_ports, wait_for
from fleet.parts import REPOSITORY, Program, debian

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
