"""Tests of a guest's network: QEMU's arguments, and the host's end of a connection."""

import socket
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

from tierlab.errors import LabError
from tierlab.network import FORWARD, Network


class Arguments(unittest.TestCase):
    def test_each_program_has_an_address(self) -> None:
        words = Network({"10.0.2.9:80": "127.0.0.1:81", "10.0.2.8:1": "/a,b"}).arguments()
        user = words[words.index("-netdev") + 1]
        self.assertTrue(user.startswith("user,id=net,restrict=on,guestfwd=tcp:10.0.2.9:80-cmd:"))
        self.assertTrue(user.endswith(f"{FORWARD} /a,,b"), user)

    def test_other_addresses_are_refused(self) -> None:
        with self.assertRaisesRegex(LabError, "192.0.2.1:80"):
            Network({"192.0.2.1:80": "127.0.0.1:81"}).arguments()


class Forwarding(unittest.TestCase):
    def setUp(self) -> None:
        directory = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.path = directory / "socket"
        self.server = self.enterContext(socket.socket(socket.AF_UNIX))
        self.server.bind(str(self.path))
        self.server.listen()

    def test_bytes_pass_both_ways_to_the_end(self) -> None:
        def answer() -> None:
            peer, _ = self.server.accept()
            with peer:
                asked = b""
                while part := peer.recv(1 << 16):
                    asked += part
                peer.sendall(asked[::-1])

        thread = threading.Thread(target=answer)
        thread.start()
        sent = bytes(range(256)) * 1000
        command = [sys.executable, str(FORWARD), str(self.path)]
        done = subprocess.run(command, input=sent, capture_output=True, check=True)
        thread.join()
        self.assertEqual(done.stdout, sent[::-1])


if __name__ == "__main__":
    unittest.main()
