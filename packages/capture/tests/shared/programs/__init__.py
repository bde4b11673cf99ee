"""Small programs over tensors and plain Python, run eagerly and captured by ``test_programs``; all files of this folder.

Each of ``PROGRAMS`` is a function of a tensor; everything it returns, raises or changes is compared.
"""

import importlib
import pkgutil

from .registry import PROGRAMS

__all__ = ["PROGRAMS"]

for _file in sorted(pkgutil.iter_modules(__path__), key=lambda file: file.name):
    importlib.import_module(f"{__name__}.{_file.name}")
