"""Tests that the lab's programs do what their usage states, and that the servers for the tests are
present."""

import socket
import subprocess

from tierguest import Guest, test

MIB = 1 << 20


def _steps(guest: Guest, pattern: str) -> list[int]:
    """Returns the index (0 to 3) of the part that was hot in each phase."""
    options = ("mib=16", "hot_mib=4", f"pattern={pattern}", "phase_s=1", "phases=6", "stores=20")
    lines = guest.json_lines("stairs", *options)
    assert all(line["operations"] > 0 for line in lines), lines
    first = min(line["hot_start"] for line in lines)
    return [(line["hot_start"] - first) // (4 * MIB) for line in lines]


@test(boot="single", share="programs")
def stairs_moves_as_configured(guest: Guest) -> None:
    """The hot part moves upwards in stairs, up and down in zigzag, and stays in place in fixed."""
    assert _steps(guest, "stairs") == [0, 1, 2, 3, 0, 1]
    assert _steps(guest, "zigzag") == [0, 1, 2, 3, 2, 1]
    assert _steps(guest, "fixed") == [0] * 6


@test(boot="single", share="programs")
def wrong_options_are_explained(guest: Guest) -> None:
    """A user's mistake ends a program with status 2 and a sentence that names it."""
    for words, printed in (
        (["stairs", "mib=16", "hot_mib=32"], "does not fit into mib=16"),
        (["stairs", "mb=16"], "'mb' is no option"),
        (["chase", "none", "0"], "KIB: 'none' is not a number"),
        (["where", "1"], "usage: where PID START BYTES"),
        (["graph", "10", "8", "1", "mst"], "one of: pagerank, bfs, sssp, cc, bc, tc"),
        (["xsbench", "1", "1"], "GRIDPOINTS: '1' is not a number of 2 or more"),
        (["btree", "1"], "usage: btree RECORDS OPERATIONS"),
    ):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 2 and printed in done.stderr, (
            f"{words}: status {done.returncode}: {done.stderr}"
        )


@test(boot="single", share="programs")
def the_graph_is_the_same_each_time(guest: Guest) -> None:
    """Results depend only on the arguments, so that runs under different policies can be
    compared."""
    for kernel in ("pagerank", "bfs", "sssp", "cc", "bc", "tc"):
        first, second = (guest.json_lines("graph", "14", "8", "2", kernel) for _ in range(2))
        assert first[0]["edges"] == 8 << 14, first[0]
        results = [[line["checksum"] for line in lines[1:]] for lines in (first, second)]
        assert results[0] == results[1], f"{kernel}: {results}"


@test(boot="single", share="programs")
def other_results_are_the_same_each_time(guest: Guest) -> None:
    """The same holds for programs that do one piece of work, and for stairs with a number of
    accesses."""
    for words in (
        ("xsbench", "100", "10000"),
        ("btree", "10000", "100000"),
        ("stairs", "mib=4", "hot_mib=1", "stores=20", "cold=10", "operations=100000", "phases=2"),
    ):
        first, second = (guest.json_lines(*words)[-1]["checksum"] for _ in range(2))
        assert first == second != 0, f"{words}: {first}, {second}"


@test(boot="single", share="programs")
def redis_and_memcached_answer(guest: Guest) -> None:
    """The two stores of Debian start and answer over loopback."""
    guest.start("redis-server", "--save", "", "--port", "6379", "--dir", str(guest.directory))
    ping = ["redis-cli", "ping"]
    guest.wait_until(
        lambda: "PONG" in subprocess.run(ping, capture_output=True, text=True, check=False).stdout,
        30,
        "no PONG",
    )
    assert guest.run("redis-cli", "set", "key", "value").strip() == "OK"
    guest.start("memcached", "-u", "nobody", "-l", "127.0.0.1")
    guest.wait_until(lambda: "VERSION" in _memcached_version(), 30, "no VERSION")


def _memcached_version() -> str:
    try:
        with socket.create_connection(("127.0.0.1", 11211), timeout=2) as connection:
            connection.sendall(b"version\r\n")
            return connection.recv(64).decode()
    except ConnectionRefusedError as error:
        return str(error)
