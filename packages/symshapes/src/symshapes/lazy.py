"""`lazy_package`: what a package names is imported when somebody asks for it. `import_whole`: what is imported while programs run.

Flows in: the package's name, and the modules that its public names come from. Flows out: a package that takes next to nothing to import,
so that who runs what was compiled before never imports what compiles.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


class _Imports:
    """Which threads import, so that none forks meanwhile. Those that import do not wait for each other here: the locks of their modules see to that."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._depth: Counter[int] = Counter()
        os.register_at_fork(
            before=self._before_fork, after_in_parent=self._after_in_parent, after_in_child=self._after_in_child
        )

    def __enter__(self) -> None:
        with self._changed:
            self._depth[threading.get_ident()] += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._depth[threading.get_ident()] -= 1
            if not self._depth[threading.get_ident()]:
                del self._depth[threading.get_ident()]
                self._changed.notify_all()

    def _before_fork(self) -> None:
        self._changed.acquire()
        self._changed.wait_for(lambda: not self._depth.keys() - {threading.get_ident()})

    def _after_in_parent(self) -> None:
        self._changed.release()

    def _after_in_child(self) -> None:
        self._changed = threading.Condition()  # for the other one threads may wait that the child has not


_IMPORTS = _Imports()


def import_whole(name: str) -> ModuleType:
    """Import a module that nothing needed until now. No thread forks meanwhile: its child would wait for a half imported module forever."""
    with _IMPORTS:
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
            known.append(getattr(import_whole(module), theirs))
        return known[0]

    def write(self: ModuleType, value: Any) -> None:
        # Importing a module of that name sets it here.
        if not (isinstance(value, ModuleType) and value.__name__ == f"{package}.{name}"):
            known[:] = [value]

    def forget(self: ModuleType) -> None:
        known.clear()

    return property(read, write, forget)
