"""Images of containers without a base image and without a registry."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from fleet.parts import REPOSITORY

# The name in the daemon's image (scripts/release/oci_layout.py), which the chart has as default.
DAEMON = "localhost/tierwised"

# What the first image does unless a pod names a command: longer than any test.
SANDBOX = ("/bin/busybox", "sleep", "1000000")


def workloads(root: Path, programs: Path, out: Path) -> None:
    """Writes the image of the pods under test: a shell, the lab's programs, and Redis with its
    libraries from the guest's root."""
    with tempfile.TemporaryDirectory(dir=out.parent) as name:
        tree = Path(name) / "tree"
        _copy(root / "usr/bin/busybox", tree / "bin/busybox")
        (tree / "bin/sh").symlink_to("busybox")
        for program in sorted(programs.iterdir()):
            if program.is_file():
                _copy(program, tree / "bin" / program.name)
        _with_libraries(root, "/usr/bin/redis-server", tree)
        (tree / "tmp").mkdir()
        (tree / "tmp").chmod(0o1777)
        layout = Path(name) / "layout"
        _umoci("init", "--layout", layout)
        _umoci("new", "--image", f"{layout}:v1")
        _umoci("insert", "--image", f"{layout}:v1", tree, "/")
        # As the sandbox of a pod it sleeps.
        words = [w for word in SANDBOX for w in ("--config.cmd", word)]
        environment = ("--config.env", "PATH=/bin:/usr/bin")
        _umoci("config", "--image", f"{layout}:v1", *environment, *words)
        _pack(layout, out)


def daemon(root: Path, programs: Mapping[str, Path], out: Path) -> str:
    """Writes the image that `make package-image` writes, with programs that were linked with the
    guest's libraries instead of static ones, which take minutes to build. Returns its digest."""

    def fill(tree: Path) -> None:
        for program, file in programs.items():
            _copy(file, tree / "usr/sbin" / program)
            _libraries(root, file, tree)
        for private in ("run/tierwise", "var/lib/tierwise"):
            (tree / private).mkdir(parents=True, mode=0o700)
        (tree / "etc/tierwise").mkdir(parents=True)
        (tree / "tmp").mkdir()
        (tree / "tmp").chmod(0o1777)

    return _own("tierwised", fill, out)


def driver(program: Path, out: Path) -> str:
    """Writes the image that `make package-image-dra` writes. Returns its digest."""
    return _own("tierwise-dra", lambda tree: _copy(program, tree / "usr/sbin/tierwise-dra"), out)


def _own(title: str, fill: Callable[[Path], None], out: Path) -> str:
    """Writes an image of this project with what `fill` puts into its root."""
    with tempfile.TemporaryDirectory(dir=out.parent) as name:
        tree = Path(name) / "tree"
        fill(tree)
        layer, layout = Path(name) / "layer.tar", Path(name) / "layout"
        _run(["tar", "--directory", tree, "--owner=0", "--group=0", "-cf", layer, "."])
        layout.mkdir()
        values = {"REVISION": "test", "VERSION": "0.1.0", "SOURCE_DATE_EPOCH": "0"}
        values |= {"TITLE": title, "ENTRYPOINT": f"/usr/sbin/{title}", "DESCRIPTION": "of a test"}
        values["CREATED_BY"] = "fleet"
        script = REPOSITORY / "scripts/release/oci_layout.py"
        _run([sys.executable, script, layer, layout], {**os.environ, **values})
        _pack(layout, out)
        index = json.loads((layout / "index.json").read_text())
        return str(index["manifests"][0]["digest"])


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)
    target.chmod(0o755)


def _with_libraries(root: Path, program: str, tree: Path) -> None:
    """Copies a program of a root with all that it is linked with."""
    _copy(root / program.lstrip("/"), tree / program.lstrip("/"))
    _libraries(root, root / program.lstrip("/"), tree)


def _libraries(root: Path, program: Path, tree: Path) -> None:
    """Copies what a program is linked with. The root's own loader says what that is."""
    inside = root / "tmp" / f"linked-{os.getpid()}"
    shutil.copy(program, inside)
    try:
        loader = "/lib64/ld-linux-x86-64.so.2"
        listed = _run(["chroot", root, loader, "--list", f"/tmp/{inside.name}"])
    finally:
        inside.unlink()
    found = set(re.findall(r"(/\S+) \(0x", listed)) | {loader}
    for library in sorted(found):
        # Debian's /lib is a link to /usr/lib, and an image needs none.
        resolved = Path(os.path.realpath(f"{root}{library}"))
        _copy(resolved, tree / library.lstrip("/"))


def _umoci(verb: str, *words: str | Path) -> None:
    _run(["umoci", verb, *words])


def _pack(layout: Path, out: Path) -> None:
    beside = out.with_name(f"{out.name}.new")
    _run(["tar", "--directory", layout, "-cf", beside, "."])
    beside.rename(out)


def _run(command: list[str | Path], environment: Mapping[str, str] | None = None) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout
