"""Python's garbage collector, held back while a program is compiled and while what compiles is imported.

Compiling makes a great many objects, and most of them live on. Each quarter more of them the collector walks over all objects of the
program, torch's and the model's modules included, which takes longer than a frame's capture.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_held_back() -> Iterator[None]:
    """No cycles are looked for inside, unless somebody asks; nothing changes where the program has switched that off.

    By its threshold, of which 0 means never: whether the collector is enabled is the program's, whose other threads may ask or say so meanwhile.
    """
    first, *others = gc.get_threshold()
    if not first or not gc.isenabled():  # another thread compiles, maybe
        yield
        return
    gc.set_threshold(0)
    try:
        yield
    finally:
        if not gc.get_threshold()[0]:
            gc.set_threshold(first, *others)


_FROZEN_AT_START = 1000
"""Objects that CPython itself freezes as it starts, at most: 375 on 3.12. A program that freezes does so after its imports, which make far more."""


@contextmanager
def imported_to_stay() -> Iterator[None]:
    """The same around imports: what they made counts as old at once. Else the first collection after them would walk over all of it.

    Where the program has frozen objects of its own nothing is said of their age: all that is frozen can only be thawed together.
    """
    with collection_held_back():
        yield
        if gc.isenabled() and gc.get_freeze_count() < _FROZEN_AT_START:
            gc.freeze()
            gc.unfreeze()
