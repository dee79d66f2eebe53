"""Which of this process's mappings are registered with a userfaultfd, by smaps."""

from pathlib import Path


def protected_mappings(smaps: Path = Path("/proc/self/smaps")) -> int:
    """How many: their flags contain uw (write protection) or um (missing pages), or uf/ur (read and write protection)."""
    count = 0
    for line in smaps.read_text(encoding="ascii").splitlines():
        if line.startswith("VmFlags:"):
            count += bool({"uw", "um", "ur", "uf"} & set(line.split()[1:]))
    return count
