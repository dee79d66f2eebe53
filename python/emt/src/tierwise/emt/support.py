"""The interpreters that can be tracked, and access to the extension."""

import importlib.util
import sys
from types import ModuleType

from .errors import Unavailable

#: The oldest and the newest CPython whose objects and pools the extension knows.
OLDEST, NEWEST = (3, 11), (3, 14)


def unsupported() -> str:
    """Returns the reason why there is no usable extension; empty if there is one.

    Without one the package is pure Python: tracking does nothing, and reports this reason.
    """
    if sys.implementation.name != "cpython":
        return f"this is {sys.implementation.name}; tierwise.emt tracks CPython {_range()}"
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        return f"this is CPython {sys.version.split()[0]}; tierwise.emt tracks {_range()}"
    if importlib.util.find_spec("tierwise.emt._emt") is None:
        return (
            "tierwise.emt was installed without its extension: install a wheel for this "
            "interpreter, or build it where there is a C compiler"
        )
    return ""


def _range() -> str:
    return f"{OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"


def extension() -> ModuleType:
    """Returns the extension.

    Raises:
        Unavailable: It does not exist, or cannot be loaded here (a sub-interpreter, another
            page size).
    """
    if missing := unsupported():
        raise Unavailable(missing)
    try:
        return importlib.import_module("tierwise.emt._emt")
    except ImportError as error:
        raise Unavailable(str(error)) from error


def in_sub_interpreter() -> bool:
    """Returns true if this is not the process's first interpreter."""
    for name in ("_interpreters", "_xxsubinterpreters"):
        if importlib.util.find_spec(name) is not None:
            interpreters = importlib.import_module(name)
            # The result is a number until 3.12, and later a tuple that starts with the number.
            current, main = interpreters.get_current(), interpreters.get_main()
            return bool(current != main)
    return False


def free_threaded() -> bool:
    """Returns true if this build has no global interpreter lock; its objects are not in pools."""
    # sysconfig reports this too, but imports threading, which must be left to the program.
    return "t" in sys.abiflags
