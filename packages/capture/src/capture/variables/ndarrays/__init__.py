"""NumPy's arrays and scalars as values, computed by the graph; nothing of it is there where NumPy is not installed."""

from __future__ import annotations

import importlib
import importlib.util

if importlib.util.find_spec("numpy") is not None:
    for _name in ("values", "inputs", "calls", "interchange", "errors", "draws"):
        importlib.import_module(f"{__name__}.{_name}")
