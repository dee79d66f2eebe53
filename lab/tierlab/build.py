"""Builds a bootable image from Debian packages and this directory's sources."""

import fcntl
import os
import re
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .apt import SUITE, SUITES, Apt
from .command import run
from .errors import LabError
from .kernel import SERIES, Series
from .paths import LAB, REPOSITORY, Paths
from .steps import digest, remove, step

# Packages for the tests and for an operator's shell inside the guest.
ROOT_PACKAGES = (
    "python3",
    "redis-server",
    "redis-tools",
    "memcached",
    "numactl",
    "cxl",
    "daxctl",
    "kmod",
    "iproute2",
    "procps",
    "util-linux",
    "busybox-static",
)
# Documentation, which the guest does not use and which would be a third of the image.
ROOT_WITHOUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*")
# The tree takes about 260 MB; the rest is free for a job's files. The file is sparse.
IMAGE_SIZE = "1200M"
C_WARNINGS = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wmissing-prototypes")


def build(paths: Paths) -> None:
    """Brings everything up to date. A lock makes simultaneous builds run one after the other."""
    began = time.monotonic()
    paths.target.mkdir(parents=True, exist_ok=True)
    with open(paths.target / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        apt = Apt(paths.apt)
        step(paths, paths.plugin, digest(C_WARNINGS, _plugin_sources()), _plugin)
        step(paths, paths.programs, digest(C_WARNINGS, _program_sources()), _programs)
        with ThreadPoolExecutor(1) as beside:
            # mmdebstrap takes longest and waits for its downloads, so the other steps run beside
            # it.
            building = beside.submit(
                step,
                paths,
                paths.root,
                digest([SUITE, *ROOT_PACKAGES, *ROOT_WITHOUT]),
                lambda out: _root(apt, out),
            )
            step(paths, paths.qemu, digest(["qemu-system-x86", SUITE]), lambda out: _qemu(apt, out))
            kernels = step(
                paths,
                paths.kernels,
                digest(repr(series) for series in SERIES),
                lambda out: _kernels(apt, out),
            )
            root = building.result()
        first = LAB / "guest" / "first-init"
        step(
            paths,
            paths.image,
            digest([kernels, root, IMAGE_SIZE], [first]),
            lambda out: _image(paths, first, out),
        )
        # The archives have been unpacked; the lists are fetched again by the next build that needs
        # them.
        remove(paths.apt)
    print(f"lab: ready after {time.monotonic() - began:.1f} s", flush=True)


def _plugin_sources() -> list[Path]:
    return [
        *(LAB / "plugin").glob("*.[ch]"),
        REPOSITORY / "recorder" / "plugin" / "qemu_api.h",
        REPOSITORY / "recorder" / "common" / "cache_model.h",
    ]


def _plugin(out: Path) -> None:
    sources = sorted((LAB / "plugin").glob("*.c"))
    include = [f"-I{REPOSITORY / 'recorder' / 'plugin'}", f"-I{REPOSITORY / 'recorder' / 'common'}"]
    run(
        "plugin",
        [
            "gcc",
            "-O2",
            "-g",
            *C_WARNINGS,
            *include,
            "-fPIC",
            "-fvisibility=hidden",
            "-shared",
            "-o",
            out,
            *sources,
            "-lpthread",
            "-ldl",
        ],
    )


def _program_sources() -> list[Path]:
    return [*(LAB / "guest" / "programs").glob("*.[ch]")]


def _programs(out: Path) -> None:
    """Compiles one static program per source file, so that the guest needs no library of this
    machine."""
    out.mkdir()
    for source in sorted((LAB / "guest" / "programs").glob("*.c")):
        run("programs", ["gcc", "-O2", *C_WARNINGS, "-static", "-o", out / source.stem, source])


def _unpack(name: str, archives: list[Path], into: Path) -> None:
    for archive in sorted(archives):
        run(name, ["dpkg-deb", "-x", archive, into])


def _qemu(apt: Apt, out: Path) -> None:
    """Unpacks QEMU with all its dependencies. It runs with its own C library, so it does not depend
    on the machine's release."""
    with tempfile.TemporaryDirectory(dir=out.parent) as cache:
        (Path(cache) / "archives" / "partial").mkdir(parents=True)
        apt.get(
            "qemu",
            f"-oDir::Cache={cache}",
            "install",
            "-y",
            "--download-only",
            "--no-install-recommends",
            "qemu-system-x86",
        )
        archives = list((Path(cache) / "archives").glob("*.deb"))
        if not archives:
            raise LabError("qemu: apt fetched nothing for qemu-system-x86")
        out.mkdir()
        _unpack("qemu", archives, out)


def _kernels(apt: Apt, out: Path) -> None:
    out.mkdir()
    for series in SERIES:
        _kernel(apt, series, out / series.name)


def _kernel(apt: Apt, series: Series, out: Path) -> None:
    """Unpacks one kernel: the newest of its series in the archive."""
    version = _newest(apt, series)
    with tempfile.TemporaryDirectory(dir=out.parent) as scratch:
        packages = _kernel_packages(apt, f"linux-image-cloud-amd64={version}")
        apt.get("kernels", "download", *packages, cwd=Path(scratch))
        tree = Path(scratch) / "tree"
        _unpack("kernels", list(Path(scratch).glob("*.deb")), tree)
        images = [file for file in tree.rglob("vmlinuz*") if file.is_file()]
        modules = (
            list((tree / "usr/lib/modules").iterdir())
            if (tree / "usr/lib/modules").is_dir()
            else []
        )
        if len(images) != 1 or len(modules) != 1:
            raise LabError(
                f"kernels: one image and one module tree expected in {packages}; "
                f"found {images}, {modules}"
            )
        out.mkdir()
        shutil.copyfile(images[0], out / "vmlinuz")
        (out / "release").write_text(modules[0].name + "\n")
        shutil.move(modules[0], out / "modules")
    print(f"lab: kernel {series.name}: {version}", flush=True)


def _newest(apt: Apt, series: Series) -> str:
    """Returns the first version of the meta package in the series' suite; apt lists the newest
    first."""
    listed = apt.query("kernels", "madison", "linux-image-cloud-amd64")
    found = [[part.strip() for part in line.split("|")] for line in listed.splitlines()]
    for _, version, source in found:
        if f" {series.suite}/main" in f" {source.split(' ', 1)[-1]}" and version.startswith(
            series.version_prefix
        ):
            return version
    offered = ", ".join(sorted({version for _, version, _ in found})) or "nothing"
    raise LabError(
        f"kernels: {series.suite} has no linux-image-cloud-amd64 {series.version_prefix}*; "
        f"it has: {offered}"
    )


def _kernel_packages(apt: Apt, meta: str) -> list[str]:
    """Returns the packages, named by version, that the meta package needs: image, modules, base."""
    found: list[str] = []
    queue = [meta]
    while queue:
        for line in apt.query("kernels", "depends", "--important", queue.pop()).splitlines():
            match = re.match(r"\s*\|?(?:Pre)?Depends: (linux-[a-z]+-\d\S*)$", line)
            if match and match[1] not in found:
                found.append(match[1])
                queue.append(match[1])
    return found


def _root(apt: Apt, out: Path) -> None:
    if os.geteuid() != 0:
        raise LabError(
            "root: making a Debian root directory needs root, as files in it belong to it; "
            "run as root"
        )
    sources = out.parent / "root.list"
    sources.write_text("\n".join(apt.source_lines(*SUITES[:2])) + "\n")
    try:
        run(
            "root",
            [
                "mmdebstrap",
                "--quiet",
                "--mode=root",
                "--variant=minbase",
                *(f"--dpkgopt=path-exclude={pattern}" for pattern in ROOT_WITHOUT),
                f"--include={','.join(ROOT_PACKAGES)}",
                SUITE,
                out,
                sources,
            ],
        )
    finally:
        sources.unlink()


def _image(paths: Paths, first: Path, out: Path) -> None:
    """Makes a file system of the root with the modules of every kernel and the guest's first
    program."""
    modules = paths.root / "usr/lib/modules"
    remove(modules)
    for series in SERIES:
        directory = paths.kernels / series.name
        release = (directory / "release").read_text().strip()
        shutil.copytree(directory / "modules", modules / release, symlinks=True)
        run("image", ["chroot", paths.root, "depmod", release])
    shutil.copy(first, paths.root / "first-init")
    (paths.root / "first-init").chmod(0o755)
    for name in ("lab", "results"):
        (paths.root / name).mkdir(exist_ok=True)
    # The file system has no journal, because a guest's writes end with the guest.
    run(
        "image",
        [
            "mke2fs",
            "-q",
            "-t",
            "ext4",
            "-O",
            "^has_journal",
            "-E",
            "lazy_itable_init=1",
            "-d",
            paths.root,
            out,
            IMAGE_SIZE,
        ],
        env={**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"},
    )
