"""The tenants of the SLO bench: two services and three batch programs, their sizes, the ramp of the
load, and the rule that gives the services' SLOs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .programs import SOCKET, Program

# The services' keys. Ten thousand values of nearly a page are some 45 MiB, as much as a batch
# program has; nine of ten requests go to the last fifth of the keys.
KEYS = ("keys=10000", "value_bytes=4000", "pipeline=16")
DRAW = ("load=0", "draw=hotspot")
# Services and clients are real-time tasks, as an operator configures services beside batch
# programs: otherwise the P99 would be the time of a batch program's turn on the one CPU, whatever
# the memory. All four have one priority, so a store answers what has arrived before the next one
# runs.
FIRST = ("chrt", "--fifo", "1")
# Seconds of a step. The daemon decides once per second, and moves all that fits within two. The
# recipe expects that the load may rise as far as it rose within 20 s before, so that a ramp of
# short steps looks steep to it.
STEP_S = 5
# Steps of the load, relative to each service's knee. At the first the policies find the hot memory:
# it is shown and does not count. The last but one is more than fast memory alone serves; the last
# one shows how a policy recovers.
SHARES = (0.15, 0.15, 0.4, 0.6, 0.8, 0.9, 1.05, 0.4)
SETTLING = 1
# An SLO is ten times the P99 that a service has at the least load with all memory fast. ZygOS
# (Prekas et al., SOSP 2017) has ten times the mean time of a request; that would be less than the
# P99 of an idle service here. The factor was chosen before any policy but all-fast had run.
SLO_FACTOR = 10.0


@dataclass(frozen=True)
class Service:
    """A store with its clients' load."""

    name: str
    words: tuple[str, ...]
    """The server's command line without its address."""
    socket_option: str
    """Its option for a Unix socket."""
    knee: int
    """Requests per second that it serves with all memory fast while the other one serves its own:
    those for which the batch programs' work, which falls with the load, comes to nothing."""
    seed: int
    """Of its client: two services must not have their arrivals at the same times."""

    @property
    def socket(self) -> str:
        """Returns the server's socket in the guest, in its working directory."""
        return f"{self.name}.sock"

    def server(self, socket: str) -> tuple[str, ...]:
        """Returns the server's command line with a socket, in its working directory."""
        return (*self.words, self.socket_option, socket)

    def client(self, *more: str, socket: str = "") -> tuple[str, ...]:
        """Returns its client's command line."""
        return ("kvload", f"store={self.name}", f"socket={socket or self.socket}", *KEYS, *more)

    def ramp(self) -> tuple[str, ...]:
        """Returns the command line of the client that drives the ramp."""
        rates = ",".join(str(round(share * self.knee)) for share in SHARES)
        return self.client(*DRAW, f"rates={rates}", f"step_s={STEP_S}", f"seed={self.seed}")

    def recorded(self) -> Program:
        """Returns the same server and requests for the recorder."""
        requests = f"requests={RECORDED_REQUESTS}"
        return Program(
            f"slo-{self.name}",
            self.name,
            self.server(SOCKET),
            left_mib=0,
            load=self.client(socket=SOCKET),
            work=self.client(*DRAW, requests, socket=SOCKET),
            operations=RECORDED_REQUESTS,
        )


@dataclass(frozen=True)
class Batch:
    """A program whose throughput counts; it works until it is ended."""

    name: str
    words: tuple[str, ...]
    """Its command line without the amount of work."""
    unit: str
    """The work that it counts."""
    amount: int
    """The work that is recorded: some seconds of a guest, which the simulator repeats."""

    def endless(self) -> tuple[str, ...]:
        """Returns its command line in the guest."""
        return (*self.words, str(ENDLESS))

    def recorded(self) -> Program:
        """Returns the same program for the recorder."""
        words = (*self.words, str(self.amount))
        return Program(f"slo-{self.name}", self.name, words, left_mib=0)


# More than a program does in a run, and few enough that the B+ tree's memory for insertions can be
# mapped.
ENDLESS = 1_000_000_000
# Six for each key; a page of the hot fifth has 27.
RECORDED_REQUESTS = 60_000
# They start before the services, in this order, and hold the fast node when these start: a first
# touch that favoured the services would leave nothing to do.
BATCH = (
    Batch("pagerank", ("graph", "20", "4"), "edges", amount=12),
    Batch("btree", ("btree", "250000"), "operations", amount=4_000_000),
    Batch("xsbench", ("xsbench", "2000"), "look-ups", amount=600_000),
)
SERVICES = (
    Service(
        "redis",
        ("redis-server", "--save", "", "--port", "0"),
        "--unixsocket",
        knee=11000,
        seed=1,
    ),
    Service(
        "memcached",
        ("memcached", "-u", "root", "-m", "128", "-t", "1"),
        "-s",
        knee=11000,
        seed=2,
    ),
)
TENANTS = tuple(one.name for one in (*SERVICES, *BATCH))
# Free memory of the fast node before the tenants start: a third of their 221 MiB, and 10 MiB that
# the kernel keeps.
LEFT_MIB = 84


def slo_us(steps: Sequence[Mapping[str, float]]) -> float:
    """Returns a service's SLO from its steps with all memory fast."""
    return SLO_FACTOR * steps[SETTLING]["p99_us"]


def above(histogram: Sequence[tuple[float, int]], limit_us: float) -> int:
    """Returns the number of requests above a latency; `histogram` has upper ends and counts."""
    return sum(count for upper, count in histogram if upper > limit_us)
