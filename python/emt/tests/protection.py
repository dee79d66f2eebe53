"""Finds this process's mappings that are registered with a userfaultfd, from smaps."""

from pathlib import Path


def protected_mappings(smaps: Path = Path("/proc/self/smaps")) -> int:
    """Counts mappings whose flags contain uw (write protection) or um (missing pages), or uf/ur
    (read and write protection)."""
    count = 0
    for line in smaps.read_text(encoding="ascii").splitlines():
        if line.startswith("VmFlags:"):
            count += bool({"uw", "um", "ur", "uf"} & set(line.split()[1:]))
    return count


def huge_bytes(address: int, smaps: Path = Path("/proc/self/smaps")) -> int:
    """Returns the bytes of an address's mapping that are in huge pages."""
    within = False
    for line in smaps.read_text(encoding="ascii").splitlines():
        words = line.split()
        if line.startswith("AnonHugePages:") and within:
            return int(words[1]) * 1024
        start, dash, end = words[0].partition("-")
        if dash:
            within = int(start, 16) <= address < int(end, 16)
    return 0


def is_protected(address: int, smaps: Path = Path("/proc/self/smaps")) -> bool:
    """Returns true if the mapping of an address is registered."""
    within = False
    for line in smaps.read_text(encoding="ascii").splitlines():
        words = line.split()
        if line.startswith("VmFlags:") and within:
            return bool({"uw", "um", "ur", "uf"} & set(words[1:]))
        start, dash, end = words[0].partition("-")
        if dash:
            within = int(start, 16) <= address < int(end, 16)
    return False
