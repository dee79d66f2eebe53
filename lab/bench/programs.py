"""The measured programs: their command lines and sizes, which the guest and the recorder both run,
and the runs."""

from dataclasses import dataclass, field

# Where the store listens, in the directory that it is started in.
SOCKET = "store.sock"
# The store's keys, shared by loading and by what is measured. Values of nearly a page: what a
# request costs beside its value (system calls, the protocol) takes microseconds and would hide
# where the value is.
KEYS = ("store=redis", "keys=24000", "value_bytes=4000", "pipeline=16")


@dataclass(frozen=True)
class Program:
    """A program that fills its memory and then does a fixed amount of work."""

    name: str
    about: str
    words: tuple[str, ...]
    """The program whose memory is placed; a store is a server that `load` fills."""
    left_mib: int
    """Free memory of the fast node at the program's start: a third of what it will hold, and 10
    MiB that the kernel keeps."""
    granule_kib: int = 256
    """The daemon's unit of placement (tierguest/configuration.py)."""
    load: tuple[str, ...] = field(default=())
    """Fills a store."""
    work: tuple[str, ...] = field(default=())
    """The client of a store whose run is measured."""
    says_when_filled: bool = True
    """True if it prints a line when it has filled its memory; if not, it writes the file of its
    option `report`."""


PROGRAMS = (
    Program(
        "stairs",
        "32 of 128 MiB hot, which move once; 1 % of accesses anywhere",
        # The first touch fills the fast node from the front: both of the hot parts start on the
        # slow node.
        (
            "stairs",
            "mib=128",
            "hot_mib=32",
            "hot_at_mib=64",
            "pattern=stairs",
            "cold=10",
            "stores=20",
            "operations=50000000",
            "phases=2",
        ),
        left_mib=54,
        says_when_filled=False,
    ),
    Program(
        # 2^20 ranks of 8 bytes are twice the last-level cache; they are allocated last and start on
        # the slow node.
        "graph",
        "PageRank, 2^20 vertices, 2^23 edges",
        ("graph", "20", "8", "28"),
        left_mib=31,
    ),
    Program(
        "redis",
        "Redis, 24,000 values of 4,000 bytes, 95 % reads, 90 % of them of the last fifth of the "
        "keys",
        ("redis-server", "--save", "", "--port", "0", "--unixsocket", SOCKET),
        left_mib=45,
        load=("kvload", *KEYS, f"socket={SOCKET}"),
        work=("kvload", *KEYS, f"socket={SOCKET}", "load=0", "draw=hotspot", "requests=800000"),
    ),
)

# The states of the fast node in which a run can start (hosts.py).
HOSTS = ("equal", "used")

# The bound comes first. Two are run twice, one that moves nothing and one that decides by what it
# sees: how far two runs of the same differ.
RUNS = (
    "all-fast",
    "first-touch",
    "kernel-tiering",
    "kernel-default",
    "damon-migrate",
    "multi-clock",
    "memtis",
    "tierwise",
    "first-touch",
    "tierwise",
)


def program(name: str) -> Program:
    """The program of that name. KeyError if there is none."""
    return {program.name: program for program in PROGRAMS}[name]
