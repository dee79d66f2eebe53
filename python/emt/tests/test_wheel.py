"""The wheel in a clean environment, for each CPython from 3.11 to 3.14 that the machine has."""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1]
#: Far above the time of a build on a loaded machine.
BUILDS_WITHIN_S = 600
#: What a user's first program does, and what its typed interface promises.
PROGRAM = """
import importlib.metadata, importlib.resources, tierwise.emt as emt
with emt.tiering(sample_interval=0.02, overhead_budget=1.0) as t:
    while t.stats().active and t.stats().intervals < 12:
        [bytearray(100) for _ in range(1000)]
t.report("heat.html")
print(t.stats().reason, importlib.metadata.version("tierwise-emt"))
print((importlib.resources.files("tierwise.emt") / "py.typed").is_file())
"""


def interpreters() -> dict[str, str]:
    """Returns an interpreter for each version, by its name; that of the tests is one of them."""
    found = {f"{sys.version_info[0]}.{sys.version_info[1]}": sys.executable}
    installed = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for minor in range(11, 15):
        places = [
            shutil.which(f"python3.{minor}") or "",
            *map(str, installed.glob(f"3.{minor}.*/bin/python3")),
        ]
        for place in filter(None, places):
            if _version(place) == (3, minor):
                found.setdefault(f"3.{minor}", place)
    return found


def _version(interpreter: str) -> tuple[int, ...]:
    """Returns the version of an interpreter that can make environments; () of another."""
    text = "import ensurepip, venv, sysconfig, os, sys; "
    text += "assert os.path.exists(sysconfig.get_path('include') + '/Python.h'); "
    done = subprocess.run(
        [interpreter, "-c", text + "print(*sys.version_info[:2])"],
        capture_output=True,
        text=True,
        check=False,
    )
    return tuple(map(int, done.stdout.split())) if done.returncode == 0 else ()


INTERPRETERS = interpreters()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the sources, so that no files are left in them."""
    copy = tmp_path_factory.mktemp("source") / "emt"
    shutil.copytree(
        SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
    )
    yield copy


def run(*words: str, directory: Path, **environment: str) -> str:
    """Runs a command and returns its output; AssertionError if it fails."""
    # The environment is clean: no path of the tests' own interpreter.
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "LD_PRELOAD")}
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        cwd=directory,
        env={**clean, **environment},
        timeout=BUILDS_WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("version", INTERPRETERS)
def test_the_wheel_works_in_a_clean_environment(version: str, source: Path, tmp_path: Path) -> None:
    run(INTERPRETERS[version], "-m", "venv", "venv", directory=tmp_path)
    python = str(tmp_path / "venv" / "bin" / "python")
    pip = (python, "-m", "pip", "--quiet", "--disable-pip-version-check")
    run(
        *pip, "wheel", "--no-deps", "--wheel-dir", "wheel", str(source),
        directory=tmp_path, TIERWISE_EMT_REQUIRE_EXTENSION="1",
    )  # fmt: skip
    (wheel,) = (tmp_path / "wheel").iterdir()
    names = zipfile.ZipFile(wheel).namelist()
    assert not [name for name in names if "reproduction" in name or name.endswith(".json")]
    assert f"cp{version.replace('.', '')}" in wheel.name
    run(*pip, "install", "--no-index", str(wheel), directory=tmp_path)
    run(*pip, "check", directory=tmp_path)
    printed = run(python, "-W", "error", "-c", PROGRAM, directory=tmp_path)
    assert printed == "ended 0.1.0\nTrue\n"
    assert "<svg" in (tmp_path / "heat.html").read_text(encoding="utf-8")
    run(python, "-m", "tierwise.emt", "check", directory=tmp_path)
