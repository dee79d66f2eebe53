"""The objects that a signal of writes may find idle: every use of them is a write.

A use of an object takes a reference to it first and drops it later, and each of these writes its
page. Memory that is not an object (buffers, tables of dicts, items of lists) is read without a
write, and so are these:

- immortal objects, since CPython 3.12: their references are not counted (csrc/uses.c excludes their
  pages);
- strings: a dict compares the contents of its keys;
- dicts: the lookup of an attribute in its object's dict, or of a name in a module's, takes no
  reference to the dict;
- types and code: a call reads them while it runs;
- cells: a closure reads them through the tuple that holds them.

A frame of CPython 3.14 borrows references to its local variables' objects. The object was fetched
by a counted reference, so its uses are unreported only while one frame holds it.
"""

from __future__ import annotations

from array import array
from types import CellType, CodeType

from ..support import free_threaded
from .known_types import all_types

#: Types whose use need not write, with their subclasses.
USED_WITHOUT_A_WRITE = (str, dict, type, CodeType, CellType)


def types_whose_uses_write() -> array[int]:
    """Returns the addresses of all other types. There are none on a free-threaded interpreter: an
    object's owner and other threads count references separately there, or not at all."""
    if free_threaded():
        return array("Q")
    # `type`'s own check is used, so that no metaclass's check runs.
    return array(
        "Q",
        (
            address
            for address, found in all_types().items()
            if not issubclass(found, USED_WITHOUT_A_WRITE)
        ),
    )
