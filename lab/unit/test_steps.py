"""Tests of build steps: they run again when their inputs change, and leave no partial result."""

import contextlib
import io
import tempfile
import unittest
from pathlib import Path

from tierlab.command import run
from tierlab.errors import LabError
from tierlab.paths import Paths
from tierlab.steps import digest, step


class Steps(unittest.TestCase):
    def setUp(self) -> None:
        self.directory = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.paths = Paths(self.directory)
        self.output = self.directory / "thing"
        self.built = 0
        self.enterContext(contextlib.redirect_stdout(io.StringIO()))

    def _build(self, beside: Path) -> None:
        self.built += 1
        beside.write_text(f"build {self.built}")

    def test_the_same_inputs_build_once(self) -> None:
        for _ in range(2):
            step(self.paths, self.output, "inputs", self._build)
        self.assertEqual((self.built, self.output.read_text()), (1, "build 1"))

    def test_other_inputs_build_again(self) -> None:
        step(self.paths, self.output, "inputs", self._build)
        step(self.paths, self.output, "others", self._build)
        self.assertEqual(self.output.read_text(), "build 2")

    def test_a_failed_build_leaves_what_was_there(self) -> None:
        def fails(beside: Path) -> None:
            beside.write_text("half")
            raise LabError("no")

        step(self.paths, self.output, "inputs", self._build)
        with self.assertRaises(LabError):
            step(self.paths, self.output, "others", fails)
        self.assertEqual(self.output.read_text(), "build 1")
        self.assertFalse((self.directory / "thing.new").exists())
        step(self.paths, self.output, "others", self._build)
        self.assertEqual(self.output.read_text(), "build 2")

    def test_a_digest_depends_on_all_inputs(self) -> None:
        one, two = self.directory / "one", self.directory / "two"
        one.write_text("same")
        two.write_text("same")
        texts = {digest(["a"]), digest(["b"]), digest(["a", "b"]), digest(["ab"])}
        files = {digest([], [one]), digest([], [two])}
        self.assertEqual(len(texts | files), 6)


class Commands(unittest.TestCase):
    def test_a_failure_names_step_command_and_output(self) -> None:
        with self.assertRaisesRegex(
            LabError, r"(?s)kernels: `sh -c echo why; exit 3` ended with status 3:.*why"
        ):
            run("kernels", ["sh", "-c", "echo why; exit 3"])

    def test_a_missing_program_is_named(self) -> None:
        with self.assertRaisesRegex(LabError, "no-such-program is not installed"):
            run("root", ["no-such-program"])


if __name__ == "__main__":
    unittest.main()
