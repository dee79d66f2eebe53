"""The directories of the lab's sources and of its build results."""

import os
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
LAB = REPOSITORY / "lab"

# The bench's package and the daemon's unit, as a job has them.
BENCH_FILES = {
    "bench": LAB / "bench",
    "tierwised.service": REPOSITORY / "packaging" / "tierwised.service",
}

# The programs under test, which a guest gets if they have been built. They are release builds,
# because a debug build under emulation is another order of magnitude slower.
TESTED_PROGRAMS = ("tierwised", "tierwise")


@dataclass(frozen=True)
class Paths:
    """The directory of build results, by default target/lab/ (TIERLAB_TARGET names another)."""

    target: Path

    @classmethod
    def default(cls) -> "Paths":
        """Returns the directory that the environment names."""
        named = os.environ.get("TIERLAB_TARGET")
        return cls(Path(named).resolve() if named else REPOSITORY / "target" / "lab")

    @property
    def apt(self) -> Path:
        """The lab's own package manager state, so that the machine's is not changed."""
        return self.target / "apt"

    @property
    def qemu(self) -> Path:
        """QEMU with every library that it needs, unpacked."""
        return self.target / "qemu"

    @property
    def kernels(self) -> Path:
        """One directory per kernel series: vmlinuz, release, modules/."""
        return self.target / "kernels"

    @property
    def root(self) -> Path:
        """The guest's root as a directory."""
        return self.target / "root"

    @property
    def image(self) -> Path:
        """The guest's root as an ext4 image."""
        return self.target / "root.ext4"

    @property
    def programs(self) -> Path:
        """The guest's programs, static."""
        return self.target / "programs"

    @property
    def plugin(self) -> Path:
        """The plugin that QEMU loads."""
        return self.target / "tiermem.so"

    @property
    def stamps(self) -> Path:
        """The inputs from which each step was last built."""
        return self.target / "stamps"

    @property
    def recordings(self) -> Path:
        """The recordings of the bench's programs: PROGRAM.twt."""
        return self.target / "recordings"

    @property
    def runs(self) -> Path:
        """Directories of guests that run now, and of those that failed."""
        return self.target / "runs"


def tested_program(name: str) -> Path | None:
    """Returns a program under test, if it has been built: from the directory that TIERLAB_TESTED
    names, else from target/release."""
    directory = Path(os.environ.get("TIERLAB_TESTED", REPOSITORY / "target" / "release"))
    candidate = directory / name
    return candidate if candidate.is_file() else None
