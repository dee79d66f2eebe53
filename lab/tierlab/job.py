"""The input of a guest: a tar of the lab's programs, the programs under test, a directory, and a
command."""

import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .paths import LAB, TESTED_PROGRAMS, Paths, tested_program

# virtio-blk's sector.
SECTOR = 512


@dataclass(frozen=True)
class Job:
    """A shell command that runs in /lab/job, which holds the contents of `directory`."""

    command: str
    directory: Path | None = None
    files: Mapping[str, Path] = field(default_factory=dict)
    shell: bool = False

    def write(self, paths: Paths, out: Path) -> None:
        """Writes the tar that becomes a disk of the guest."""
        with tarfile.open(out, "w") as tar:
            tar.add(LAB / "guest" / "init", "init")
            tar.add(LAB / "guest" / "tierguest", "python/tierguest", filter=_without_caches)
            for program in sorted(paths.programs.iterdir()):
                tar.add(program, f"bin/{program.name}")
            for name in TESTED_PROGRAMS:
                if tested := tested_program(name):
                    tar.add(tested, f"bin/{name}")
            _add_text(tar, "command", self.command + "\n")
            _add_directory(tar, "job")
            if self.directory:
                tar.add(self.directory, "job", filter=_without_caches)
            for name, file in self.files.items():
                tar.add(file, f"job/{name}", filter=_without_caches)
            if self.shell:
                _add_text(tar, "shell", "")
        with open(out, "ab") as disk:
            disk.truncate(-(-disk.tell() // SECTOR) * SECTOR)


def _without_caches(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "__pycache__" in entry.name else entry


def _add_text(tar: tarfile.TarFile, name: str, text: str) -> None:
    content = text.encode()
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))


def _add_directory(tar: tarfile.TarFile, name: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type = tarfile.DIRTYPE
    entry.mode = 0o755
    tar.addfile(entry)


def unpack_results(disk: Path, into: Path) -> None:
    """Unpacks the guest's files from /results; none if the guest wrote no tar."""
    into.mkdir(parents=True, exist_ok=True)
    with open(disk, "rb") as file:
        if not any(file.read(SECTOR)):
            return
    with tarfile.open(disk, "r:") as tar:
        # The filter excludes files outside `into` and devices. Python 3.11.2 of Debian 12 lacks the
        # argument for it.
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(into)
