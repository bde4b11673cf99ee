"""Values of the program under evaluation, a file a family: all are imported here, so that each registers what it knows."""

from __future__ import annotations

import importlib
import os

# Files and folders, each a module; asked of the file system at once, which `pkgutil` does one by one.
for _name in sorted(os.listdir(*__path__)):
    if not _name.startswith("__"):
        importlib.import_module(f"{__name__}.{_name.removesuffix('.py')}")
