"""Tests of following a guest: its lines, its end, and a guest that hangs. A shell script replaces
QEMU."""

import subprocess
import tarfile
import tempfile
import threading
import unittest
from pathlib import Path

from tierlab.guest import Lines, Outcome, watch
from tierlab.job import Job, unpack_results
from tierlab.paths import Paths


class Watching(unittest.TestCase):
    def setUp(self) -> None:
        self.directory = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in ("console", "events", "qemu"):
            (self.directory / name).touch()
        self.reported: list[str] = []
        self.stop = threading.Event()

    def _watch(self, script: str, timeout_s: float = 60) -> Outcome:
        with subprocess.Popen(["sh", "-c", script], cwd=self.directory) as process:
            self.addCleanup(process.kill)
            return watch(
                process,
                self.directory,
                timeout_s,
                self.reported.append,
                lambda line: None,
                self.stop,
            )

    def test_a_job_that_ends(self) -> None:
        outcome = self._watch(
            "(echo 'ready 4.2 6.12.0-x'; echo one; echo 'exit 3') >>events; echo end >console"
        )
        self.assertEqual((outcome.exit_code, outcome.release, outcome.reason), (3, "6.12.0-x", ""))
        self.assertEqual((self.reported, outcome.console_tail()), (["one"], "end"))

    def test_a_hung_guest_leaves_its_console(self) -> None:
        outcome = self._watch(
            "echo 'ready 4.2 r' >events; echo stuck here >console; exec sleep 1000", timeout_s=0.2
        )
        self.assertIsNone(outcome.exit_code)
        self.assertRegex(outcome.reason, r"process \d+\) hung and was ended after 0 s")
        self.assertEqual(outcome.console_tail(), "stuck here")

    def test_an_interrupt_ends_the_guest(self) -> None:
        self.stop.set()
        outcome = self._watch("exec sleep 1000")
        self.assertEqual((outcome.exit_code, outcome.reason), (None, "the lab was interrupted"))

    def test_a_guest_that_dies_says_why(self) -> None:
        outcome = self._watch("echo 'no such machine' >qemu; exit 1")
        self.assertIsNone(outcome.exit_code)
        self.assertRegex(outcome.reason, r"status 1.*no such machine")

    def test_a_panic_is_named(self) -> None:
        outcome = self._watch("echo '[1.0] Kernel panic - not syncing: no timer' >console")
        self.assertRegex(outcome.reason, r"status 0.*says: \[1\.0\] Kernel panic.*no timer$")


class Files(unittest.TestCase):
    def setUp(self) -> None:
        self.directory = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def test_events_arrive_as_whole_lines(self) -> None:
        file = self.directory / "serial"
        file.write_text("one\r\ntw")
        lines = Lines(file)
        self.assertEqual(lines.new(), ["one"])
        with open(file, "a", encoding="ascii") as more:
            more.write("o\nthree")
        self.assertEqual(lines.new(), ["two"])
        self.assertEqual(lines.new(rest=True), ["three"])

    def test_a_job_disk_has_whole_sectors(self) -> None:
        (self.directory / "programs").mkdir()
        (self.directory / "input").mkdir()
        (self.directory / "input" / "data").write_bytes(bytes(range(256)))
        Job("exit 3", self.directory / "input").write(
            Paths(self.directory), self.directory / "job.tar"
        )
        self.assertEqual((self.directory / "job.tar").stat().st_size % 512, 0)
        with tarfile.open(self.directory / "job.tar") as tar:
            self.assertEqual(tar.extractfile("job/data").read(), bytes(range(256)))
            self.assertEqual(tar.extractfile("command").read(), b"exit 3\n")

    def test_results_are_unpacked_as_they_are(self) -> None:
        content = bytes(range(256)) * 100
        (self.directory / "out").write_bytes(content)
        with tarfile.open(self.directory / "disk", "w") as tar:
            tar.add(self.directory / "out", "out")
        with open(self.directory / "disk", "ab") as disk:
            disk.truncate(1 << 20)
        unpack_results(self.directory / "disk", self.directory / "results")
        self.assertEqual((self.directory / "results" / "out").read_bytes(), content)

    def test_missing_results_leave_an_empty_directory(self) -> None:
        (self.directory / "disk").write_bytes(bytes(1 << 16))
        unpack_results(self.directory / "disk", self.directory / "results")
        self.assertEqual(list((self.directory / "results").iterdir()), [])


if __name__ == "__main__":
    unittest.main()
