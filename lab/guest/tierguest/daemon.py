"""`tierwised`, the program under test, with a configuration that the test writes."""

import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

from .program import Program


class Tierwised(Program):
    """A running daemon. `config` is the text of its configuration file; further words are its
    arguments, and `within` is a command that executes it."""

    def __init__(
        self, directory: Path, name: str, config: str, *words: str, within: Sequence[str] = ()
    ) -> None:
        found = shutil.which("tierwised")
        if not found:
            raise AssertionError(
                "tierwised was not built: cargo build --release -p tierwised, on the host"
            )
        self.config = directory / f"{name}.toml"
        self.config.write_text(config)
        command = [*within, found, "--config", str(self.config), *words]
        super().__init__(command, directory / f"{name}.log")

    def __enter__(self) -> "Tierwised":
        return self

    def reload(self, config: str) -> None:
        """Writes another configuration beside the file, renames it, and makes the daemon read it
        (SIGHUP)."""
        beside = self.config.with_suffix(".new")
        beside.write_text(config)
        beside.rename(self.config)
        self.signal(signal.SIGHUP)

    def kill(self) -> None:
        """Ends the daemon with kill -9, like a crash."""
        self.process.kill()
        self.process.wait()
