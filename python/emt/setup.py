"""Builds the extension, and the hook by which an environment variable switches tracking on.

Where the extension cannot be built (another interpreter, no compiler), the result is the
pure-Python package, which does nothing and reports why. TIERWISE_EMT_REQUIRE_EXTENSION=1 makes this
an error. TIERWISE_EMT_CFLAGS adds compiler options.
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent
WARNINGS = [
    "-std=gnu11",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wmissing-prototypes",
    "-fvisibility=hidden",
]
#: The module site reads it at every start of the interpreter, and runs lines that start with
#: "import". It costs one read of the environment.
HOOK = "import os; os.environ.get('TIERWISE_EMT') and __import__('tierwise.emt.autostart')\n"
HOOK_FILE = "tierwise-emt.pth"


class BuildWithHook(build_py):
    """Copies the hook beside the packages."""

    def run(self) -> None:
        super().run()
        (Path(self.build_lib) / HOOK_FILE).write_text(HOOK, encoding="ascii")

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        return [*super().get_outputs(include_bytecode), str(Path(self.build_lib) / HOOK_FILE)]


def supported() -> bool:
    """True if the extension knows this interpreter's objects."""
    return (
        sys.implementation.name == "cpython"
        and (3, 11) <= sys.version_info[:2] <= (3, 14)
        and sys.platform == "linux"
    )


def extensions() -> list[Extension]:
    required = os.environ.get("TIERWISE_EMT_REQUIRE_EXTENSION") == "1"
    if not supported() and not required:
        return []
    return [
        Extension(
            "tierwise.emt._emt",
            sources=sorted(str(path.relative_to(HERE)) for path in (HERE / "csrc").glob("*.c")),
            depends=sorted(str(path.relative_to(HERE)) for path in (HERE / "csrc").glob("*.h")),
            extra_compile_args=[*WARNINGS, *os.environ.get("TIERWISE_EMT_CFLAGS", "").split()],
            extra_link_args=os.environ.get("TIERWISE_EMT_CFLAGS", "").split(),
            optional=not required,
        )
    ]


setup(ext_modules=extensions(), cmdclass={"build_py": BuildWithHook})
