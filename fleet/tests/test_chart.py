"""The chart's rules and dashboard, against the metrics that the daemon has and Prometheus' own
checks."""

import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from fleet.parts import REPOSITORY, debian

HELM = REPOSITORY / "packaging" / "helm"
RULES = HELM / "tierwise" / "files" / "rules.yaml"
DASHBOARD = HELM / "tierwise" / "files" / "dashboard.json"

# A name of a metric (tierwise_...) or of a recording rule (tierwise:...).
NAME = re.compile(r"\btierwise[_:][a-z0-9_:]+\b")
# Labels in matchers, in groupings and in legends.
LABELS = (
    re.compile(r"[{,]\s*(\w+)\s*[=!]~?"),
    re.compile(r"(?:by|on|without|ignoring)\s*\(([\w\s,]+)\)"),
    re.compile(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}"),
)
# What Prometheus adds to each sample.
ADDED = {"instance", "job"}


def metrics() -> dict[str, set[str]]:
    """Returns the metrics of docs/metrics.md with their labels. A test in Rust compares that page
    with the code."""
    rows = re.findall(
        r"^\| `(\w+)` \| \w+ \| ([\w, ]*) \|",
        (REPOSITORY / "docs" / "metrics.md").read_text(),
        re.MULTILINE,
    )
    return {name: set(labels.replace(" ", "").split(",")) - {""} for name, labels in rows}


def panels() -> list[tuple[str, str]]:
    """Returns the queries of the dashboard with their legends."""
    found = json.loads(DASHBOARD.read_text())
    targets = [target for panel in found["panels"] for target in panel["targets"]]
    return [(target["expr"], target["legendFormat"]) for target in targets]


def promtool(*words: str | Path) -> str:
    """Runs promtool, and returns what it printed if it refuses, else nothing."""
    command = [str(debian("promtool")), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode else ""


class ChartTest(unittest.TestCase):
    """What an operator's Prometheus and Grafana read."""

    def setUp(self) -> None:
        self.text = RULES.read_text()
        self.recorded = set(re.findall(r"- record: (\S+)", self.text))
        self.known = metrics()

    def test_rules_and_panels_name_metrics_that_exist(self) -> None:
        """A metric that is renamed breaks the chart here, and not on an operator's page."""
        self.assertGreater(len(self.known), 40)
        texts = [self.text, *(query for query, _ in panels())]
        named = {name for text in texts for name in NAME.findall(text)}
        self.assertGreater(len(named), 20)
        self.assertEqual(named - self.recorded - set(self.known), set())

    def test_every_recording_rule_is_used(self) -> None:
        """A rule that nothing reads costs each Prometheus memory."""
        queries = " ".join(query for query, _ in panels())
        others = self.text + queries
        for name in self.recorded:
            self.assertGreater(others.count(name), 1, name)

    def test_labels_of_rules_and_panels_exist(self) -> None:
        """A label that no metric has matches nothing, without an error."""
        labels = set().union(*self.known.values()) | ADDED
        texts = [self.text, *(query + legend for query, legend in panels())]
        found = {
            label
            for text in texts
            for pattern in LABELS
            for group in pattern.findall(text)
            for label in group.replace(" ", "").split(",")
        }
        self.assertIn("tenant", found)
        self.assertEqual(found - labels - {"severity", ""}, set())

    def test_prometheus_takes_rules_and_panels(self) -> None:
        """Both are PromQL."""
        self.assertEqual(promtool("check", "rules", RULES), "")
        rules = [
            {"record": f"panel:{number}", "expr": query.replace("$node", ".*")}
            for number, (query, _) in enumerate(panels())
        ]
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            # JSON is YAML.
            json.dump({"groups": [{"name": "panels", "rules": rules}]}, file)
            file.flush()
            self.assertEqual(promtool("check", "rules", file.name), "")

    def test_alerts_fire_as_described(self) -> None:
        """fleet/tests/rules_test.yaml has a case for each alert."""
        test = Path(__file__).parent / "rules_test.yaml"
        self.assertEqual(promtool("test", "rules", test), "")
        alerts = set(re.findall(r"- alert: (\w+)", self.text))
        self.assertEqual(alerts - set(re.findall(r"alertname: (\w+)", test.read_text())), set())

    def test_lab_has_the_capabilities_of_the_chart(self) -> None:
        """What the lab's kernels show holds for the chart's container."""
        chart = (HELM / "tierwise" / "templates" / "daemonset.yaml").read_text()
        lab = (REPOSITORY / "lab" / "tests" / "contained.py").read_text()
        added = re.search(r"add: \[(.*)\]", chart)
        tried = re.search(r"^CAPABILITIES = \[(.*)\]", lab, re.MULTILINE)
        assert added is not None and tried is not None
        self.assertEqual(added[1].split(", "), tried[1].replace('"', "").split(", "))

    def test_seccomp_permits_what_the_unit_permits(self) -> None:
        """The daemon's own calls are in the profile; those that change the machine are not."""
        profile = json.loads((RULES.parent / "seccomp.json").read_text())
        self.assertEqual(profile["defaultAction"], "SCMP_ACT_ERRNO")
        (rule,) = profile["syscalls"]
        self.assertEqual(rule["action"], "SCMP_ACT_ALLOW")
        unit = (REPOSITORY / "packaging" / "tierwised.service").read_text()
        filters = re.findall(r"^SystemCallFilter=(.*)$", unit, re.MULTILINE)
        named = {word for line in filters for word in line.split() if not word.startswith("@")}
        self.assertGreater(len(named), 1)
        needed = named | {"move_pages", "process_madvise", "openat", "execve", "accept4"}
        self.assertLessEqual(needed, set(rule["names"]))
        refused = {"mount", "ptrace", "bpf", "init_module", "kexec_load", "reboot", "setns"}
        self.assertEqual(refused & set(rule["names"]), set())

    def test_dashboard_is_what_its_program_writes(self) -> None:
        """A panel is changed in dashboard.py."""
        fresh = subprocess.run(
            [sys.executable, HELM / "dashboard.py"], capture_output=True, text=True, check=True
        ).stdout
        remedy = f"run packaging/helm/dashboard.py > {DASHBOARD.relative_to(REPOSITORY)}"
        self.assertTrue(fresh == DASHBOARD.read_text(), remedy)


if __name__ == "__main__":
    unittest.main()
