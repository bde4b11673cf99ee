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
    """No cycles are looked for inside, unless somebody asks; nothing changes where the program has switched that off."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
