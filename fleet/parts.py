"""The real parts, in target/fleet. Nothing is installed.

Debian's packages come through the lab's private package manager, from the release that has NRI in
its containerd. Programs that Debian lacks are built from Go modules.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "lab"))

from tierlab.apt import Apt  # noqa: E402
from tierlab.command import run  # noqa: E402

TARGET = REPOSITORY / "target" / "fleet"

# The packages, with the program for which each is there.
PACKAGES = {
    "containerd": "usr/bin/containerd",
    "containernetworking-plugins": "usr/lib/cni/bridge",
    "etcd-server": "usr/bin/etcd",
    "prometheus": "usr/bin/prometheus",
    "promtool": "usr/bin/promtool",
    "runc": "usr/sbin/runc",
}

# The modules of programs, each with the version that the tests were written with.
MODULES = {
    "helm": "helm.sh/helm/v4/cmd/helm@v4.3.1",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok@v0.8.0",
}

# Kubernetes, whose staging modules have the same numbers below v0.
KUBERNETES = "1.37.2"

# The first release of Go that builds all of them.
GO = "1.26"


def debian(package: str) -> Path:
    """Returns the program of a Debian package, fetched and unpacked at the first call."""
    program = TARGET / "debian" / package / PACKAGES[package]
    if not program.is_file():
        into = TARGET / "debian" / package
        scratch = TARGET / "debian" / f"{package}.new"
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.rmtree(into, ignore_errors=True)
        scratch.mkdir(parents=True)
        # The package alone: its libraries are those of any Debian since 12.
        Apt(TARGET / "apt").get(package, "download", package, cwd=scratch)
        for archive in list(scratch.glob("*.deb")):
            run(package, ["dpkg-deb", "-x", archive, scratch])
            archive.unlink()
        scratch.rename(into)
    return program


def module(name: str) -> Path:
    """Returns a program of a Go module, built at the first call."""
    program = TARGET / "go" / name
    if not program.is_file():
        _go(name, ["install", "-trimpath", "-ldflags=-s -w", MODULES[name]], REPOSITORY)
    return program


def kubernetes(name: str) -> Path:
    """Returns a program of Kubernetes. The first call builds it for minutes and a gigabyte."""
    program = TARGET / "go" / name
    if not program.is_file():
        directory = TARGET / "kubernetes"
        directory.mkdir(parents=True, exist_ok=True)
        _kubernetes_module(name, directory)
        version = "k8s.io/component-base/version"
        minor = KUBERNETES.split(".")[1]
        flags = f"-s -w -X {version}.gitVersion=v{KUBERNETES}"
        flags += f" -X {version}.gitMajor=1 -X {version}.gitMinor={minor}"
        words = ["build", "-mod=mod", "-trimpath", f"-ldflags={flags}", "-o", str(program)]
        _go(name, [*words, f"k8s.io/kubernetes/cmd/{name}"], directory)
    return program


def _kubernetes_module(step: str, directory: Path) -> None:
    """Writes the module that builds Kubernetes. Its archive lacks the staging modules that its own
    go.mod names as directories, so each is replaced by the module of its number."""
    file = directory / "go.mod"
    file.write_text(f"module x\n\ngo {GO}.0\n")
    found = _go(step, ["mod", "download", "-json", f"k8s.io/kubernetes@v{KUBERNETES}"], directory)
    source = Path(json.loads(found)["Dir"]) / "go.mod"
    number = KUBERNETES.removeprefix("1.")
    staged = re.findall(r"^\s*(\S+) => \./staging", source.read_text(), re.MULTILINE)
    replaced = "".join(f"\t{name} => {name} v0.{number}\n" for name in staged)
    required = f"\nrequire k8s.io/kubernetes v{KUBERNETES}\n"
    file.write_text(f"{file.read_text()}{required}\nreplace (\n{replaced})\n")


def own(name: str) -> Path:
    """Builds the Go program fleet/NAME, which takes a second if it is built."""
    return _built(name, REPOSITORY / "fleet" / name)


def driver() -> Path:
    """Builds the driver of the chart, kubernetes/dra."""
    return _built("tierwise-dra", REPOSITORY / "kubernetes" / "dra")


def _built(name: str, directory: Path) -> Path:
    # Not among the programs of modules: Kubernetes has a kubelet, too.
    program = TARGET / "own" / name
    _go(name, ["build", "-trimpath", "-o", program, "."], directory)
    return program


def _go(step: str, words: list[str | Path], directory: Path) -> str:
    """Runs the go command, which keeps what it fetches and builds in its own caches. Returns its
    standard output."""
    if shutil.which("go") is None:
        raise FileNotFoundError(f"{step}: go is missing; install Go {GO} or later")
    (TARGET / "go").mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "CGO_ENABLED": "0", "GOBIN": str(TARGET / "go")}
    # A workspace or flags of the user's would change what is built.
    environment |= {"GOFLAGS": "", "GOWORK": "off"}
    done = subprocess.run(
        ["go", *map(str, words)],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{step}: go {words[0]} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def tested(name: str) -> Path:
    """Returns a program of Tierwise: from the directory TIERLAB_TESTED, else target/debug."""
    directory = Path(os.environ.get("TIERLAB_TESTED", REPOSITORY / "target" / "debug"))
    program = directory / name
    if not program.is_file():
        raise FileNotFoundError(f"{program} is missing; scripts/build-dev.sh builds it")
    return program


class Program:
    """A program that runs in the background, with its output in a file. It is ended by its own
    number at the end of a `with`. One that `talks` has pipes for its input and standard output."""

    def __init__(
        self, name: str, command: list[str | Path], log: Path, *, talks: bool = False
    ) -> None:
        self.name = name
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
                stdout=subprocess.PIPE if talks else output,
                stderr=output if talks else subprocess.STDOUT,
            )

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def signal(self, number: int) -> None:
        """Sends it a signal."""
        self.process.send_signal(number)

    def end(self) -> None:
        """Ends the program, and waits until it has ended."""
        if self.process.poll() is None:
            self.process.terminate()
            # One that was stopped would not end.
            self.process.send_signal(signal.SIGCONT)
            try:
                self.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def output(self) -> str:
        """Returns what it has printed so far."""
        with contextlib.suppress(FileNotFoundError):
            return self.log.read_text(errors="replace")
        return ""

    def alive(self) -> None:
        """Fails with the program's last lines if it has ended."""
        if (code := self.process.poll()) is not None:
            tail = "\n".join(self.output().splitlines()[-25:])
            raise AssertionError(f"{self.name} has ended with {code}:\n{tail}")
