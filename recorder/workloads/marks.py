"""Reports the starts of phases and the numbers of operations to the recorder, through its FIFO."""

import os


class Marks:
    """The writing end of the FIFO that $TIERWISE_MARKS names; without a recorder it does
    nothing."""

    def __init__(self):
        path = os.environ.get("TIERWISE_MARKS")
        self._fifo = open(path, "w", buffering=1) if path else None

    def phase(self, name):
        """Reports the start of the phase `name`."""
        self._send(name)

    def operations(self, count):
        """Reports `count` more operations."""
        self._send(f"ops {count}")

    def _send(self, line):
        if self._fifo:
            self._fifo.write(line + "\n")
