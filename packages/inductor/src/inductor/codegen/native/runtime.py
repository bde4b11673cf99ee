"""The C++ that every native wrapper is compiled with: `native.h`, `runtime.cpp` and, for C programs, `meta_package.h`."""

from __future__ import annotations

import functools
from pathlib import Path

FOLDER = Path(__file__).parent
"""Where the headers lie."""


@functools.cache
def runtime_text() -> str:
    """The runtime's source: what checks, allocates and is called from C and from Python."""
    return (FOLDER / "runtime.cpp").read_text()
