"""Reading and writing the kernel's control files, with errors that name the file and the value."""

import os
from pathlib import Path


def read(path: str | Path) -> str:
    """Returns a file's text without the blanks around it."""
    return Path(path).read_text().strip()


def write(path: str | Path, value: object) -> None:
    """Writes a value in one call, as control files require. An OSError names the file and the
    value."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, str(value).encode())
    except OSError as error:
        raise OSError(error.errno, f"{path}: writing {value!r}: {error.strerror}") from error
    finally:
        os.close(descriptor)


def table(path: str | Path) -> dict[str, int]:
    """Reads a file whose lines have a name and a number: /proc/vmstat, memory.stat."""
    return {
        name: int(number) for name, number in (line.split() for line in read(path).splitlines())
    }


def node_table(path: str | Path) -> dict[str, list[int]]:
    """Reads memory.numa_stat: the bytes on nodes 0, 1, ... by name."""
    rows = (line.split() for line in read(path).splitlines())
    return {row[0]: [int(part.partition("=")[2]) for part in row[1:]] for row in rows}
