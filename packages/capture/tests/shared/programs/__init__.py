"""Small programs over tensors and plain Python, run eagerly and captured by ``test_programs``; all files of this folder.

Each of ``PROGRAMS`` is a function of a tensor; everything it returns, raises or changes is compared. Those of ``markers`` are
alone in a process that asks for them, by the environment variable ``PROGRAMS``: torch's own compiler, which they
call, changes torch's optimizers and modules.
"""

import importlib
import os
import pkgutil
import sys

from .registry import PROGRAMS

__all__ = ["APART", "PROGRAMS"]

APART = ["markers"]
if sys.version_info < (3, 14):  # which alone can parse it
    APART.append("since_314")
_ASKED = os.environ.get("PROGRAMS")

for _file in sorted(pkgutil.iter_modules(__path__), key=lambda file: file.name):
    if _file.name == _ASKED if _ASKED else _file.name not in APART:
        importlib.import_module(f"{__name__}.{_file.name}")
