"""A node of Kubernetes with two memory tiers, in a guest of the lab: `make fleet-node`.

Debian's containerd and runc, CNI plugins and the kubelet run in the guest. In most tests the
kubelet reads its pods from a directory (static pods). In those of fleet/guest/cluster.py it joins
an API server: the control plane runs on the host (fleet/plane.py), as it does on another machine
than a node's. fleet/guest/ has the tests. The guest is emulated, so its times are no node's.
"""

import argparse
import contextlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tierlab.guest import Guest, remove_stale_runs
from tierlab.job import Job
from tierlab.kernel import SERIES, series
from tierlab.mode import Mode
from tierlab.network import Network
from tierlab.paths import LAB, Paths
from tierlab.topology import TOPOLOGIES

from fleet import images
from fleet.chart import configuration, rendered, static_pod
from fleet.parts import REPOSITORY, TARGET, debian, driver, kubernetes, tested
from fleet.plane import Plane

if TYPE_CHECKING:
    from tierguest.declare import Test

TESTS = REPOSITORY / "fleet" / "guest"

# MiB of each node. The kubelet, the runtime and their page cache take some 600 of the first.
NODES = (2048, 2048)

# Seconds for the start of Python and for what a test's end removes.
SLACK_S = 120.0

# The programs of Debian's package of containerd.
PROGRAMS = ("containerd", "ctr", "containerd-shim-runc-v2")
# Values of the chart in the guest. The budget of an emulated CPU is a whole one.
VALUES = {
    "cpuBudgetPercent": 100,
    "releaseDamon": True,
    "classes": [{"name": "default", "maxFloor": "1Gi"}],
}

# The boot of tests whose kubelet has an API server.
CLUSTER = "cluster"

PLUGINS = ("bridge", "host-local", "loopback")


def parts(paths: Paths) -> Path:
    """Returns the directory of all that the guest needs, made at the first call and renewed where
    it changes with the sources."""
    out = TARGET / "node"
    (out / "bin").mkdir(parents=True, exist_ok=True)
    (out / "cni").mkdir(exist_ok=True)
    bin_of_containerd = debian("containerd").parent
    programs = {name: bin_of_containerd / name for name in PROGRAMS}
    programs |= {"runc": debian("runc"), "kubelet": kubernetes("kubelet")}
    for name, file in programs.items():
        shutil.copy(file, out / "bin" / name)
    plugins = debian("containernetworking-plugins").parent
    for name in PLUGINS:
        shutil.copy(plugins / name, out / "cni" / name)
    images.workloads(paths.root, paths.programs, out / "workloads.tar")
    both = {name: tested(name) for name in ("tierwised", "tierwise")}
    digest = images.daemon(paths.root, both, out / "tierwised.tar")
    (out / "tierwised.digest").write_text(digest)
    of_driver = images.driver(driver(), out / "tierwise-dra.tar")
    (out / "tierwise-dra.digest").write_text(of_driver)
    text = rendered(values(out))
    (out / "daemon.yaml").write_text(static_pod(text))
    (out / "daemon.toml").write_text(configuration(text))
    chart = REPOSITORY / "packaging" / "helm" / "tierwise"
    shutil.copy(chart / "files" / "seccomp.json", out / "seccomp.json")
    return out


def values(out: Path, **more: object) -> dict[str, object]:
    """Returns the chart's values for the images in that directory."""
    digest = (out / "tierwised.digest").read_text()
    image = {"repository": images.DAEMON, "digest": digest, "pullPolicy": "Never"}
    return {**VALUES, "image": image, **more}


def declared(wanted: str) -> "list[Test]":
    """Returns the tests with that in their names."""
    for directory in (LAB / "guest", TESTS):
        sys.path.insert(0, str(directory))
    for file in sorted(TESTS.glob("*.py")):
        __import__(file.stem)
    from tierguest import declared as all_declared

    return [test for test in all_declared() if wanted in test.name]


@contextlib.contextmanager
def control_plane(out: Path) -> Iterator[Network]:
    """A control plane, as the network of a guest."""
    plane = Plane()
    image = {"digest": (out / "tierwise-dra.digest").read_text()}
    try:
        yield plane.start(values(out, dra={"enabled": True, "maxClaim": "1Gi", "image": image}))
    finally:
        plane.doCleanups()


def run(paths: Paths, kernel: str, wanted: "Sequence[Test]", keep: Path) -> Iterator[str]:
    """Runs tests of one boot in one guest. Yields a line per test, and leaves its files in
    `keep`."""
    names = " ".join(f"'{test.name}'" for test in wanted)
    command = (
        "export PATH=/lab/job/node/bin:$PATH; "
        f"PYTHONPATH=/lab/python exec python3 -m tierguest {kernel} /lab/job/tests {names}"
    )
    job = Job(command, files={"tests": TESTS, "node": parts(paths)})
    results: dict[str, dict[str, object]] = {}

    def on_event(line: str) -> None:
        told = json.loads(line)
        if "ok" in told:
            results[told["test"]] = told

    limit = sum(test.timeout_s for test in wanted) + SLACK_S
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory())
        network = None
        if wanted[0].boot == CLUSTER:
            network = stack.enter_context(control_plane(TARGET / "node"))
        guest = Guest(paths, kernel, TOPOLOGIES["hmat"].sized(*NODES), Mode(), network)
        outcome = guest.run(job, limit, on_event, results=Path(scratch) / "results")
        shutil.copytree(Path(scratch) / "results", keep / kernel, dirs_exist_ok=True)
    (keep / kernel / f"console-{wanted[0].boot}").write_text(outcome.console)
    for test in wanted:
        told = results.get(test.name, {"ok": False, "reason": f"not run: {outcome.reason}"})
        verdict = "PASS" if told["ok"] else "FAIL"
        line = f"{kernel:5} {verdict} {told.get('seconds', 0):>7} s  {test.name}"
        figures = told.get("figures")
        if isinstance(figures, dict):
            line += "".join(f"\n      {key}={value}" for key, value in figures.items())
        if not told["ok"]:
            line += f"\n      {told['reason']}\n{outcome.console_tail()}"
        yield line


def main() -> int:
    """Runs the tests on one kernel or both; status 1 if one fails."""
    parser = argparse.ArgumentParser(prog="python3 -m fleet.node", description=__doc__)
    parser.add_argument("--kernel", help="only this series")
    parser.add_argument("--filter", default="", help="only tests with this in their name")
    parser.add_argument("--keep", type=Path, default=TARGET / "results", help="for their files")
    options = parser.parse_args()
    paths = Paths.default()
    remove_stale_runs(paths)
    kernels = [series(options.kernel).name] if options.kernel else [one.name for one in SERIES]
    wanted = declared(options.filter)
    failed = not wanted
    for kernel in kernels:
        # A guest for each boot: one has a control plane beside it.
        for boot in sorted({test.boot for test in wanted}):
            tests = [test for test in wanted if test.boot == boot]
            for line in run(paths, kernel, tests, options.keep):
                print(line, flush=True)
                failed |= " FAIL " in line.splitlines()[0]
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
