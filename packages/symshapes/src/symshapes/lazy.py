"""`lazy_package`: what a package names is imported when somebody asks for it. `import_whole`: what is imported while programs run.

Flows in: the package's name, and the modules that its public names come from. Flows out: a package that takes next to nothing to import,
so that who runs what was compiled before never imports what compiles.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

_WHOLE = threading.RLock()
os.register_at_fork(before=_WHOLE.acquire, after_in_parent=_WHOLE.release, after_in_child=_WHOLE.release)


def import_whole(name: str) -> ModuleType:
    """Import a module that nothing needed until now. No thread forks meanwhile: its child would wait for a half imported module forever."""
    with _WHOLE:
        return import_module(name)


def lazy_package(package: str, where: Mapping[str, Iterable[str]]) -> None:
    """Give a package its names, by the module that each comes from; `name as other` is called `other` here.

    A name may be a module's of the package, too (`lower` in `lower.py`): then it is the package's name all the same, as if the package had
    imported it. Modules are had by `import package.module` and `from package.module import name`.
    """
    owner = sys.modules[package]
    public = {}
    for module, names in where.items():
        for given in names:
            theirs, _, ours = given.partition(" as ")
            public[ours or theirs] = _imported(package, ours or theirs, module, theirs)
    listed = sorted({*vars(owner), *public})
    owner.__class__ = type("LazyPackage", (ModuleType,), {**public, "__dir__": lambda self: listed})


def _imported(package: str, name: str, module: str, theirs: str) -> Any:
    known: list[Any] = []

    def read(self: ModuleType) -> Any:
        if not known:
            known.append(getattr(import_module(module), theirs))
        return known[0]

    def write(self: ModuleType, value: Any) -> None:
        # Importing a module of that name sets it here.
        if not (isinstance(value, ModuleType) and value.__name__ == f"{package}.{name}"):
            known[:] = [value]

    def forget(self: ModuleType) -> None:
        known.clear()

    return property(read, write, forget)
