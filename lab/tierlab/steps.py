"""Build steps: each records the inputs of its result, and leaves no partial result."""

import hashlib
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from .paths import Paths


def digest(texts: Iterable[str] = (), files: Iterable[Path] = ()) -> str:
    """Returns a fingerprint of settings and of files, with their names."""
    hasher = hashlib.sha256()
    for text in texts:
        hasher.update(f"{len(text)}:{text}".encode())
    for file in sorted(files):
        content = file.read_bytes()
        hasher.update(f"{file.name}:{len(content)}:".encode())
        hasher.update(content)
    return hasher.hexdigest()


def remove(path: Path) -> None:
    """Removes a file or a directory, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def step(paths: Paths, output: Path, inputs: str, build: Callable[[Path], None]) -> str:
    """Makes `output` by calling `build` with a path beside it, unless it was made from the same
    inputs.

    Returns the fingerprint, which is an input of the steps that use the output.
    """
    name = output.name
    stamp = paths.stamps / name
    if output.exists() and stamp.is_file() and stamp.read_text() == inputs:
        print(f"lab: {name}: unchanged", flush=True)
        return inputs
    began = time.monotonic()
    beside = output.with_name(f"{name}.new")
    remove(beside)
    stamp.unlink(missing_ok=True)
    try:
        build(beside)
    except BaseException:
        remove(beside)
        raise
    remove(output)
    beside.rename(output)
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(inputs)
    print(f"lab: {name}: built in {time.monotonic() - began:.1f} s", flush=True)
    return inputs
