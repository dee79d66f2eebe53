"""A private package manager: it has other suites and an empty state, and installs nothing.

The archive's address is that of the machine's own apt. In the private state no package is
installed, so the packages for QEMU are complete down to the C library and run on any Debian.
"""

import re
from pathlib import Path

from .command import run
from .errors import LabError

# The release whose QEMU, kernel and userland form the guest, and the archive of its newer kernels.
SUITE = "trixie"
SUITES = (SUITE, f"{SUITE}-updates", f"{SUITE}-backports")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class Apt:
    """A private apt under `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.sources = directory / "sources.list"
        self._fresh = False

    def _options(self) -> list[str]:
        settings = {
            "Dir::Etc::sourcelist": self.sources,
            "Dir::Etc::sourceparts": "-",
            "Dir::State::Lists": self.directory / "lists",
            "Dir::State::status": self.directory / "status",
            "Dir::Cache": self.directory / "cache",
            # A directory under a home directory cannot be entered by apt's own user.
            "APT::Sandbox::User": "root",
            "Acquire::Languages": "none",
        }
        return ["-q", *(f"-o{key}={value}" for key, value in settings.items())]

    def get(self, step: str, *words: str, cwd: Path | None = None) -> str:
        """Runs apt-get with the lab's suites."""
        self._prepare(step)
        return run(step, ["apt-get", *self._options(), *words], cwd=cwd)

    def query(self, step: str, *words: str) -> str:
        """Runs apt-cache with the lab's suites."""
        self._prepare(step)
        return run(step, ["apt-cache", *self._options(), *words])

    def source_lines(self, *suites: str) -> list[str]:
        """Returns the lines of a sources.list for these suites."""
        return [f"deb [signed-by={KEYRING}] {mirror()} {suite} main" for suite in suites]

    def _prepare(self, step: str) -> None:
        """Fetches the lists, once per object."""
        if self._fresh:
            return
        if not KEYRING.is_file():
            raise LabError(f"{step}: {KEYRING} is missing; apt-get install debian-archive-keyring")
        for name in ("lists/partial", "cache/archives/partial"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        (self.directory / "status").touch()
        self.sources.write_text("\n".join(self.source_lines(*SUITES)) + "\n")
        run(step, ["apt-get", *self._options(), "update"])
        self._fresh = True


def mirror() -> str:
    """Returns the address of the Debian archive that this machine's apt uses."""
    sites = run(
        "mirror", ["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages"]
    )
    for site in sites.splitlines():
        if re.search(r"/debian/?$", site):
            return site.rstrip("/")
    raise LabError(
        "mirror: this machine's apt has no Debian archive (an address that ends with /debian); "
        f"found: {', '.join(sorted(set(sites.split()))) or 'none'}. "
        "Add one to /etc/apt/sources.list and run apt-get update"
    )
