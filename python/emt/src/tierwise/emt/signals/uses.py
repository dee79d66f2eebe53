"""The objects that a write-only signal may find idle: every use of them is a write.

Whoever uses an object takes a reference to it first and drops it later, and each writes its page.
What is not an object (buffers, tables of dicts, items of lists) is read without a write, and so are
these:

- immortal objects, since CPython 3.12: their references are not counted (csrc/uses.c leaves their
  pages out);
- strings: a dict compares its keys by what is in them;
- dicts: an attribute is looked up in its object's dict, and a name in a module's, by no reference
  to it;
- types and code: a call reads them as long as it runs;
- cells: a closure reads them by the tuple that holds them.

A frame of CPython 3.14 borrows what its local variables refer to; what they refer to was fetched by
a reference that was counted, so that an object goes unseen only as long as one frame holds it.
"""

from __future__ import annotations

from array import array
from types import CellType, CodeType

from ..support import free_threaded
from .known_types import all_types

#: Types, and what inherits from them, of which a use need not write.
USED_WITHOUT_A_WRITE = (str, dict, type, CodeType, CellType)


def types_whose_uses_write() -> array[int]:
    """The addresses of all others. None on a free-threaded interpreter: an object's owner and
    others count apart there, or not at all."""
    if free_threaded():
        return array("Q")
    # The check is that of `type` itself: no metaclass's check runs.
    return array(
        "Q",
        (
            address
            for address, found in all_types().items()
            if not issubclass(found, USED_WITHOUT_A_WRITE)
        ),
    )
