"""What this process and the daemon tell each other, over the daemon's socket for tenants.

The process reports which of its memory it has placed in slow tiers, so that the daemon does not
promote it. The daemon answers with what the process's tenant has of the fast tier and may have, so
that promotions here do not go beyond that, and no demotion there undoes them. The kernel tells the
daemon which process speaks.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from .buffers import Range, merged
from .errors import Unavailable
from .heaps import HEAPS
from .held import HELD
from .topology import PAGE_BYTES

#: Time between two exchanges of a process: a share changes over seconds, and the daemon takes 16 of
#: a tenant per second.
INTERVAL_S = 10.0
#: Time limit of an exchange. The daemon answers within a millisecond, unless it is not scheduled.
TIMEOUT_S = 2.0
#: Ranges of a report (`MAX_RANGES` of tierwise-linux); of more the largest are reported.
MAX_RANGES = 256
#: Bytes of an answer: a tenant's name and twelve numbers take some hundred.
MAX_ANSWER = 1 << 16


class Entitlement(NamedTuple):
    """What the daemon says of this process's tenant; its processes share all of it."""

    tenant: str
    mode: str
    """The daemon's mode: in "manage" it moves pages; in "steer" the kernel does."""
    usage_bytes: int
    """The tenant's memory in the fast tier."""
    free_bytes: int
    """Free memory of the fast tier."""
    placed_bytes: int
    """Memory that the daemon leaves in slow tiers, because processes of the tenant placed it."""
    floor_bytes: int | None = None
    cap_bytes: int | None = None
    """The configured floor and cap in the fast tier."""
    share_bytes: int | None = None
    """The part of the fast tier to which the daemon's policy entitles the tenant now."""

    @property
    def room_bytes(self) -> int | None:
        """How much more of the fast tier the tenant may take; None if nothing limits it.

        >>> Entitlement("shop", "manage", 30, 99, 0, cap_bytes=50, share_bytes=40).room_bytes
        10
        """
        limits = [limit for limit in (self.cap_bytes, self.share_bytes) if limit is not None]
        return max(0, min(limits) - self.usage_bytes) if limits else None


class Sharing:
    """The exchange of this process; off until `start`."""

    def __init__(self) -> None:
        self._socket = ""
        self._last: Entitlement | None = None
        self._due = 0.0
        # Bytes promoted since the last answer, which its usage does not have.
        self._promoted = 0

    def start(self, path: str) -> Entitlement:
        """Exchanges from now on.

        Raises:
            Unavailable: No daemon answers there, or it refuses; nothing is exchanged then.
        """
        before, self._socket = self._socket, path
        try:
            return self.exchange()
        except BaseException:
            self._socket = before
            raise

    def stop(self) -> None:
        """Takes the report back, and exchanges nothing any more."""
        path, self._socket, self._last = self._socket, "", None
        if path:
            _ask(path, [])

    def exchange(self) -> Entitlement:
        """Reports what is placed now, and returns the answer.

        Raises:
            Unavailable: No daemon answers, or it refuses. The next attempt is as for an answer.
        """
        self._due = time.monotonic() + INTERVAL_S
        # What is not known limits nothing.
        self._last = None
        self._last = _ask(self._socket, placed())
        self._promoted = 0
        return self._last

    def tell(self) -> None:
        """Exchanges if this process shares. What the daemon does not hear now, it hears later."""
        if self._socket:
            try:
                self.exchange()
            except Unavailable:
                # At the next call.
                self._due = 0.0

    def room_bytes(self) -> int | None:
        """Returns how much more fast memory may be taken by the last answer, of which there is a
        new one in every `INTERVAL_S`; None if nothing limits it."""
        if not self._socket:
            return None
        if time.monotonic() >= self._due:
            try:
                self.exchange()
            except Unavailable:
                return None
        room = self._last.room_bytes if self._last is not None else None
        return None if room is None else max(0, room - self._promoted)

    def moved(self, promoted: int, demoted: int) -> None:
        """Counts pages that this process moved since the last answer."""
        self._promoted += (promoted - demoted) * PAGE_BYTES


def placed() -> list[Range]:
    """Returns the ranges that this process has placed in slow tiers: at most `MAX_RANGES`."""
    ranges = merged([*HELD.slow(), *HEAPS.bound_slow()])
    largest = sorted(ranges, key=lambda one: one[0] - one[1])[:MAX_RANGES]
    return sorted(largest)


def _ask(path: str, ranges: list[Range]) -> Entitlement:
    # Imported here: most programs share nothing.
    import contextlib
    import json
    import socket

    line = json.dumps({"placed": ranges}).encode() + b"\n"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as talk:
            talk.settimeout(TIMEOUT_S)
            talk.connect(path)
            # A daemon may refuse and close before it reads: its answer is there all the same.
            with contextlib.suppress(BrokenPipeError):
                talk.sendall(line)
            with talk.makefile("rb") as answered:
                text = answered.readline(MAX_ANSWER)
        reply = json.loads(text)
        if not reply["ok"]:
            raise Unavailable(f"{path}: tierwised refuses: {reply['error']}")
        return _entitlement(reply["entitlement"])
    except OSError as error:
        raise Unavailable(
            f"{path}: no tierwised answers there ({error}); allowed: the socket that "
            "control.tenants names in its configuration"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Unavailable(
            f"{path}: this is no answer of tierwised: {type(error).__name__}: {error}"
        ) from error


def _entitlement(found: dict[str, Any]) -> Entitlement:
    def limit(name: str) -> int | None:
        return None if found.get(name) is None else int(found[name])

    return Entitlement(
        tenant=str(found["tenant"]),
        mode=str(found["mode"]),
        usage_bytes=int(found["usage_bytes"]),
        free_bytes=int(found["free_bytes"]),
        placed_bytes=int(found["placed_bytes"]),
        floor_bytes=limit("floor_bytes"),
        cap_bytes=limit("cap_bytes"),
        share_bytes=limit("share_bytes"),
    )


SHARING = Sharing()
