"""The interpreters that can be tracked, and the extension where there is one."""

import importlib.util
import sys
from types import ModuleType

from .errors import Unavailable

#: The oldest and the newest CPython whose objects and pools the extension knows.
OLDEST, NEWEST = (3, 11), (3, 14)


def unsupported() -> str:
    """The reason why there is no usable extension; empty if there is one.

    This is the pure-Python fallback: tracking then does nothing, and reports this.
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
    """The extension.

    Raises:
        Unavailable: It is not there, or refuses to be loaded here (a sub-interpreter, another
            page size).
    """
    if missing := unsupported():
        raise Unavailable(missing)
    try:
        return importlib.import_module("tierwise.emt._emt")
    except ImportError as error:
        raise Unavailable(str(error)) from error


def in_sub_interpreter() -> bool:
    """True if this is another interpreter than the process's first."""
    for name in ("_interpreters", "_xxsubinterpreters"):
        if importlib.util.find_spec(name) is not None:
            interpreters = importlib.import_module(name)
            # A number until 3.12, and since then a tuple that starts with it.
            current, main = interpreters.get_current(), interpreters.get_main()
            return bool(current != main)
    return False


def free_threaded() -> bool:
    """True if this build has no global interpreter lock; its objects are not in pools."""
    # sysconfig has this too, but imports threading, which a program may want to do itself.
    return "t" in sys.abiflags
