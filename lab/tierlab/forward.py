"""The host's end of one connection of a guest (network.py): joins its standard input and output
with a program of the host. QEMU starts one for each connection.

    python3 forward.py ADDRESS:PORT | /PATH/OF/A/SOCKET
"""

import contextlib
import os
import socket
import sys
import threading

# Bytes of one read: many of a network's packets.
CHUNK = 64 * 1024


def connected(to: str) -> socket.socket:
    """Connects to a program on this machine."""
    if to.startswith("/"):
        peer = socket.socket(socket.AF_UNIX)
        peer.connect(to)
        return peer
    address, _, port = to.rpartition(":")
    return socket.create_connection((address, int(port)))


def join(to: str, source: int, sink: int) -> None:
    """Passes bytes both ways until each side has ended."""
    with connected(to) as peer:

        def send() -> None:
            with contextlib.suppress(OSError):
                while chunk := os.read(source, CHUNK):
                    peer.sendall(chunk)
                peer.shutdown(socket.SHUT_WR)

        # Not waited for: a guest that only listens keeps its side open.
        threading.Thread(target=send, daemon=True).start()
        with contextlib.suppress(OSError):
            while chunk := peer.recv(CHUNK):
                view = memoryview(chunk)
                while view:
                    view = view[os.write(sink, view) :]


if __name__ == "__main__":
    join(sys.argv[1], sys.stdin.fileno(), sys.stdout.fileno())
