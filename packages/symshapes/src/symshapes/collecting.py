"""Python's garbage collector, held back while a program is compiled.

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
