"""The measured programs, with their command lines and sizes for the guest and for the recorder, and
the list of runs."""

from dataclasses import dataclass, field, replace

# The store's socket, in its working directory.
SOCKET = "store.sock"
# The store's keys, for loading and for the measured client. Values have nearly a page: the other
# costs of a request (system calls, the protocol) take microseconds and would hide the value's
# latency.
KEYS = ("keys=24000", "value_bytes=4000", "pipeline=16", f"socket={SOCKET}")
HOTSPOT = ("load=0", "draw=hotspot")
STORE = "24,000 values of 4,000 bytes, 95 % reads, 90 % of them of the last fifth of the keys"
# Enough for policies that learn for longer than a run. A bench of one program still ends within
# half an hour on an idle machine.
LONG = 4


@dataclass(frozen=True)
class Program:
    """A program that fills its memory and then does a fixed amount of work."""

    name: str
    about: str
    words: tuple[str, ...]
    """The command line of the program whose memory is placed; a store is a server that `load`
    fills."""
    left_mib: int
    """Free memory of the fast node at the program's start: a third of the program's memory, and 10
    MiB that the kernel keeps."""
    granule_kib: int = 256
    """The daemon's unit of placement (tierguest/configuration.py)."""
    load: tuple[str, ...] = field(default=())
    """The command line that fills a store."""
    work: tuple[str, ...] = field(default=())
    """The command line of a store's client, whose run is measured."""
    prints_when_filled: bool = True
    """True if the program prints a line when it has filled its memory; otherwise it writes the file
    of its option `report`."""
    operations: int = 0
    """The work that the recording counts, of a program that the simulator serves as a service."""
    times: int = 1
    """The factor of work relative to the standard variant; 1 for the standard variant itself."""


def _store(name: str, about: str, words: tuple[str, ...], left_mib: int, requests: int) -> Program:
    kvload = ("kvload", f"store={name}", *KEYS)
    return Program(
        name,
        f"{about}, {STORE}",
        words,
        left_mib=left_mib,
        load=kvload,
        work=(*kvload, *HOTSPOT, f"requests={requests}"),
    )


def _graph(
    name: str, about: str, scale: int, degree: int, work: tuple[str, ...], left_mib: int
) -> Program:
    """A kernel on a graph of 2^scale vertices, each with `degree` (a power of two) edges; `work` is
    the number of rounds, and the kernel's name if it is not PageRank."""
    edges = scale + degree.bit_length() - 1
    return Program(
        name,
        f"{about}, 2^{scale} vertices, 2^{edges} edges",
        ("graph", str(scale), str(degree), *work),
        left_mib=left_mib,
    )


STANDARD = (
    Program(
        "stairs",
        "32 of 128 MiB hot, which move once; 1 % of accesses anywhere",
        # First touch fills the fast node from the region's start, so both hot parts start on the
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
        prints_when_filled=False,
    ),
    # 2^20 ranks of 8 bytes are twice the last-level cache; they are allocated last and start on
    # the slow node.
    _graph("graph", "PageRank", 20, 8, ("28",), left_mib=31),
    _store(
        "redis",
        "Redis",
        ("redis-server", "--save", "", "--port", "0", "--unixsocket", SOCKET),
        left_mib=45,
        requests=800000,
    ),
    _graph("bfs", "breadth-first search from 45 sources", 20, 8, ("45", "bfs"), left_mib=27),
    _graph(
        "sssp",
        "shortest paths by delta-stepping from three sources",
        20,
        8,
        ("3", "sssp"),
        left_mib=32,
    ),
    # Half of the edges, because each is in the lists of both its ends.
    _graph("cc", "connected components by Afforest, 48 times", 20, 4, ("48", "cc"), left_mib=26),
    _graph("bc", "betweenness centrality from nine sources", 20, 8, ("9", "bc"), left_mib=36),
    # Few edges per vertex: with eight edges and 2^20 vertices, counting takes five times as long.
    _graph("tc", "triangle counting", 21, 2, ("1", "tc"), left_mib=23),
    Program(
        "xsbench",
        "macroscopic cross sections of 68 nuclides with 4,000 energies each",
        ("xsbench", "4000", "2200000"),
        left_mib=39,
    ),
    Program(
        # SQLite under Python does not serve: an interpreter's instructions, some ten thousand per
        # operation, would hide the few misses of a look-up.
        "btree",
        "a B+ tree of 500,000 records of 128 bytes, hot pages anywhere; 95 % reads, 90 % of all of "
        "the last fifth of the keys",
        ("btree", "500000", "14000000"),
        left_mib=40,
    ),
    _store(
        "memcached",
        "Memcached",
        # Memory for all values, and one thread, because there is one connection. As root it
        # requires the option -u root, and everything in a guest runs as root.
        ("memcached", "-u", "root", "-s", SOCKET, "-m", "256", "-t", "1"),
        left_mib=47,
        requests=320000,
    ),
    Program(
        "zigzag",
        "32 of 128 MiB hot, which go back and forth in five phases; 1 % of accesses anywhere",
        (
            "stairs",
            "mib=128",
            "hot_mib=32",
            "hot_at_mib=64",
            "pattern=zigzag",
            "cold=10",
            "stores=20",
            "operations=16000000",
            "phases=5",
        ),
        left_mib=54,
        prints_when_filled=False,
    ),
    Program(
        "uniform",
        "96 MiB, all equally hot: nothing to gain",
        (
            "stairs",
            "mib=96",
            "hot_mib=96",
            "pattern=fixed",
            "stores=20",
            "operations=64000000",
            "phases=1",
        ),
        left_mib=42,
        prints_when_filled=False,
    ),
)

# Programs with a long variant, and the argument that is their amount of work.
AMOUNTS = {
    "stairs": "operations=50000000",
    "graph": "28",
    "redis": "requests=800000",
    "xsbench": "2200000",
}


def _longer(program: Program, amount: str) -> Program:
    name, sign, value = amount.rpartition("=")
    more = f"{name}{sign}{int(value) * LONG}"
    return replace(
        program,
        name=f"{program.name}-long",
        about=f"{program.about}; {LONG} times the work",
        words=tuple(more if word == amount else word for word in program.words),
        work=tuple(more if word == amount else word for word in program.work),
        times=LONG,
    )


# Long variants show a policy's results over more time; they run only when they are named.
PROGRAMS = (
    *STANDARD,
    *(_longer(program, AMOUNTS[program.name]) for program in STANDARD if program.name in AMOUNTS),
)

# The states of the fast node in which a run can start (hosts.py).
HOSTS = ("equal", "used")

# The bound comes first. Two policies run twice, one that moves nothing and one that decides by
# observed accesses, to measure the difference between equal runs.
RUNS = (
    "all-fast",
    "first-touch",
    "kernel-tiering",
    "kernel-default",
    "damon-migrate",
    "memtierd-age",
    "memtierd-heat",
    "multi-clock",
    "memtis",
    "tierwise",
    "tierwise-engine",
    "first-touch",
    "tierwise",
)
# They run if --runs names them.
ON_REQUEST = ("tierwise-running",)
# Those of RUNS that need a program which the lab does not have.
NEED_MEMTIERD = ("memtierd-age", "memtierd-heat")


def program(name: str) -> Program:
    """Returns the program of that name. Raises KeyError if there is none."""
    return {program.name: program for program in PROGRAMS}[name]
