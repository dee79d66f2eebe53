"""What the chart needs of a node, and what it takes of its kernel."""

import errno
import time
from pathlib import Path

from kube import PARTS, Node
from tierguest.files import read
from tierguest.settings import snapshot

KDAMONDS = Path("/sys/kernel/mm/damon/admin/kdamonds")
STATISTICS = Path("/sys/module/damon_stat/parameters/enabled")

# The images that no registry has, by their archives.
IMAGES = {"tierwised": "localhost/tierwised", "tierwise-dra": "localhost/tierwise-dra"}


def prepare_node(node: Node) -> None:
    """Gives containerd the images by the digests that the chart names, and the kubelet the
    profile."""
    for archive, image in IMAGES.items():
        node.load_image(f"{archive}.tar", image)
        loaded = f"{image}@{(PARTS / f'{archive}.digest').read_text()}"
        if loaded not in node.images():
            (named,) = (name for name in node.images() if name.startswith(f"{image}:"))
            assert node.ctr("images", "tag", named, loaded) is not None, node.describe()
    profile = Path("/var/lib/kubelet/seccomp/profiles/tierwised.json")
    profile.parent.mkdir(parents=True, exist_ok=True)
    profile.write_text((PARTS / "seccomp.json").read_text())


def running() -> int:
    """Returns the number of DAMON's threads that a user of its files has started."""
    return sum(_patiently(state) == "on" for state in KDAMONDS.glob("*/state"))


def _patiently(file: Path) -> str:
    """Reads a file of DAMON, which refuses while another process uses any (EBUSY)."""
    for _ in range(100):
        try:
            return read(file)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            time.sleep(0.1)
    return read(file)


def taken() -> tuple[dict[Path, str], str, int, str]:
    """Returns the kernel's settings, the places for DAMON's threads and those that run, and whether
    the kernel uses DAMON for statistics of its own."""
    statistics = read(STATISTICS) if STATISTICS.exists() else ""
    return snapshot(), _patiently(KDAMONDS / "nr_kdamonds"), running(), statistics
