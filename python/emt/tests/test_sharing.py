"""Tests of the exchange with the daemon. A thread answers in the daemon's place; the lab has the
daemon itself (lab/tests/emt.py)."""

from __future__ import annotations

import contextlib
import gc
import json
import socket
import threading
from array import array
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tierwise.emt as emt
from conftest import Program
from tierwise.emt import placing, profile, sharing
from tierwise.emt.held import HELD
from tierwise.emt.policy.migration import Round
from tierwise.emt.profile import Profile, Site
from tierwise.emt.settings import Settings
from tierwise.emt.sharing import MAX_RANGES, SHARING, Sharing
from tierwise.emt.topology import Topology
from tierwise.emt.tracking import Tracking

PAGE = 4096
TWO = Topology((0,), (1,))
MIB = 1 << 20
ANSWER = {
    "tenant": "shop",
    "mode": "manage",
    "fast_nodes": [0],
    "slow_nodes": [1],
    "usage_bytes": 30 * MIB,
    "free_bytes": 90 * MIB,
    "placed_bytes": 0,
    "cap_bytes": 50 * MIB,
    "share_bytes": 40 * MIB,
}


class Daemon:
    """Keeps the reports, and answers each with `answer`."""

    def __init__(self, path: Path) -> None:
        self.reports: list[Any] = []
        self.answer = json.dumps({"ok": True, "entitlement": ANSWER}).encode() + b"\n"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(path))
        self._socket.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            talk, _ = self._socket.accept()
            with talk, talk.makefile("rb") as lines:
                if not (line := lines.readline()).strip():
                    return
                self.reports.append(json.loads(line)["placed"])
                with contextlib.suppress(ConnectionError):
                    # The client reads no endless answer.
                    talk.sendall(self.answer)

    def end(self, path: Path) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as last:
            last.connect(str(path))
        self._thread.join()
        self._socket.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "socket"


@pytest.fixture
def daemon(path: Path) -> Iterator[Daemon]:
    daemon = Daemon(path)
    yield daemon
    SHARING.stop()
    daemon.end(path)
    gc.collect()
    assert not HELD.ranges()


class Kernel:
    """Every page is, and stays, on the slow node."""

    def move(self, addresses: Any, node: int) -> list[int]:
        return [1] * len(addresses)

    def nodes(self, addresses: Any) -> list[int]:
        return [1] * len(addresses)


def test_room_is_what_share_and_cap_leave(daemon: Daemon, path: Path) -> None:
    found = emt.share(path)
    assert (found.tenant, found.mode, found.usage_bytes) == ("shop", "manage", 30 * MIB)
    assert found.room_bytes == 10 * MIB
    assert found._replace(share_bytes=None).room_bytes == 20 * MIB
    assert found._replace(share_bytes=None, cap_bytes=None).room_bytes is None
    assert found._replace(usage_bytes=60 * MIB).room_bytes == 0
    assert daemon.reports == [[]]


def test_own_promotions_use_up_the_room(daemon: Daemon, path: Path) -> None:
    SHARING.start(str(path))
    SHARING.moved(promoted=8 * MIB // PAGE, demoted=0)
    assert SHARING.room_bytes() == 2 * MIB
    SHARING.moved(promoted=8 * MIB // PAGE, demoted=0)
    assert SHARING.room_bytes() == 0
    SHARING.exchange()
    assert SHARING.room_bytes() == 10 * MIB
    assert len(daemon.reports) == 2, "no exchange between"


def test_placed_slow_buffers_are_reported(daemon: Daemon, path: Path) -> None:
    emt.share(path)
    # Without weak references: it is moved, and not held.
    freely = bytearray(4 * PAGE)
    cold, hot = np.zeros(16 * PAGE, "u1"), np.zeros(16 * PAGE, "u1")
    for thing, tier in ((cold, "slow"), (hot, "fast"), (freely, "slow")):
        placing.place(thing, tier, TWO, Kernel())
    SHARING.tell()
    assert daemon.reports[-1] == [[cold.ctypes.data, cold.ctypes.data + cold.nbytes]]
    placing.place(cold[: 4 * PAGE], "fast", TWO, Kernel())
    SHARING.tell()
    assert daemon.reports[-1] == [[cold.ctypes.data + 4 * PAGE, cold.ctypes.data + cold.nbytes]]
    emt.place(cold, "auto")
    assert daemon.reports[-1] == [], "place tells it at once"
    placing.place(hot, "slow", TWO, Kernel())
    del hot
    gc.collect()
    SHARING.tell()
    assert daemon.reports[-1] == []


def test_largest_ranges_are_reported_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [(n * 100, n * 100 + 1 + n % 50) for n in range(2 * MAX_RANGES)]
    monkeypatch.setattr(HELD, "slow", lambda: many)
    found = sharing.placed()
    assert len(found) == MAX_RANGES and found == sorted(found)
    assert min(end - start for start, end in found) >= 25


def test_profile_takes_no_more_than_room(
    daemon: Daemon, path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sites = [Site("a.py", "f", n, 4.0 * MIB, 100.0 / n) for n in range(1, 21)]
    file = tmp_path / "sites.json"
    Profile(tuple(sites), {}).write(file)
    monkeypatch.setattr(Topology, "free_fast_bytes", lambda _: 40 * MIB)

    def hot() -> list[int]:
        found = profile.tiers_for(file, TWO, 0, 0.02)
        assert found is not None
        return [line for (_, line), tier in found.items() if tier == 2]

    assert len(hot()) == 10
    emt.share(path)
    assert hot() == [1, 2], "8 MiB of the ten"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b'{"ok":false,"error":"process 7 belongs to no tenant"}\n', "belongs to no tenant"),
        (b"what?\n", "no answer of tierwised"),
        (b"", "no answer of tierwised"),
        (b'{"ok":true}\n', "KeyError"),
        (b'{"ok":true,"entitlement":{"tenant":"a"}}\n', "KeyError"),
        (b'{"ok":true,"entitlement":[]}\n', "no answer of tierwised"),
        (b"[" * 70_000 + b"\n", "no answer of tierwised"),
    ],
)
def test_refusals_and_nonsense_are_reasons(
    daemon: Daemon, path: Path, answer: bytes, message: str
) -> None:
    daemon.answer = answer
    with pytest.raises(emt.Unavailable, match=message):
        emt.share(path)
    assert SHARING.room_bytes() is None, "nothing is shared"


def test_refusal_before_report_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = threading.Event()
    sendall = socket.socket.sendall

    def late(talk: socket.socket, line: bytes) -> None:
        refused.wait()
        sendall(talk, line)

    monkeypatch.setattr(socket.socket, "sendall", late)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()

        def refuse() -> None:
            talk, _ = listener.accept()
            with talk:
                talk.send(b'{"ok":false,"error":"try again"}\n')
            refused.set()

        with ThreadPoolExecutor(1) as pool:
            pool.submit(refuse)
            with pytest.raises(emt.Unavailable, match="try again"):
                emt.share(path)


def test_lost_daemon_limits_nothing(path: Path) -> None:
    ours = Sharing()
    daemon = Daemon(path)
    ours.start(str(path))
    daemon.end(path)
    path.unlink()
    ours.tell()
    assert ours.room_bytes() is None
    daemon = Daemon(path)
    ours.tell()
    assert ours.room_bytes() == 10 * MIB
    ours.stop()
    daemon.end(path)


def test_cold_heap_is_reported_whole(program: Program, daemon: Daemon, path: Path) -> None:
    done = program(
        """
        import sys
        import tierwise.emt as emt
        from tierwise.emt.heaps import HEAPS
        from tierwise.emt.topology import Topology

        emt.share(sys.argv[1])
        # The machine may have one node: the hook binds nothing then, and the report is the same.
        HEAPS.start(None)
        HEAPS._bound = True
        with emt.cold():
            kept = [bytes(400) for _ in range(1000)]
        emt.share(sys.argv[1])
        cold = emt.heaps()["cold"]
        assert cold.start <= id(kept[-1]) < cold.end <= cold.limit
        print(cold.start, cold.limit)
        """.replace("sys.argv[1]", repr(str(path)))
    )
    assert daemon.reports[0] == []
    assert daemon.reports[-1] == [[int(word) for word in done.stdout.split()]]


def test_environment_shares_or_names_the_reason(
    program: Program, daemon: Daemon, path: Path
) -> None:
    text = "from tierwise.emt.sharing import SHARING; print(SHARING.room_bytes())"
    switched = {"TIERWISE_EMT": "1", "TIERWISE_EMT_DAEMON": str(path)}
    assert program(text, **switched).stdout == f"{10 * MIB}\n"
    switched["TIERWISE_EMT_DAEMON"] = f"{path}-elsewhere"
    done = program(text, **switched)
    assert done.stdout == "None\n"
    assert "shares nothing" in done.stderr and "no tierwised answers there" in done.stderr


class SeesFree:
    """Notes the free memory that each round may use, and promotes three pages."""

    def __init__(self) -> None:
        self.free: list[int] = []

    def round(self, _: object, free_pages: int, __: int) -> Round:
        self.free.append(free_pages)
        return Round(1, 0.0, "", 1, 0, 3, 0, 0)


def test_tracking_promotes_no_more_than_room(
    daemon: Daemon, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Topology, "free_fast_bytes", lambda _: 1000 * MIB)
    emt.share(path)
    tracking = Tracking(Settings(mem_pressure="1MiB"))
    migration = SeesFree()
    try:
        tracking.pause()
        # This machine has one node, which the kernel would report for each page.
        monkeypatch.setattr(tracking.table, "locate", lambda *_: None)
        tracking.table.inner.see({4096: 1.0}, 1.0)
        tracking.table.place(array("Q", [4096]), fast=False)
        tracking._round(migration)  # type: ignore[arg-type]
        tracking._round(migration)  # type: ignore[arg-type]
        SHARING.stop()
        tracking._round(migration)  # type: ignore[arg-type]
    finally:
        tracking.end()
    # The reserve of a MiB and the room of ten, less what was promoted; without the daemon all.
    assert migration.free == [11 * MIB // PAGE, 11 * MIB // PAGE - 3, 1000 * MIB // PAGE]
