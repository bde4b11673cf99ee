"""Values of the program under evaluation, a file a family: all are imported here, so that each registers what it knows."""

from __future__ import annotations

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
