"""`find_quickly`: modules of our packages are found and read with fewer questions to the file system.

Flows in: a package's specification. Flows out: a finder before that of `sys.path`, which knows what lies in the package's folders. For each module
importlib asks nine times, most of them through Python; this asks four times. What is read is the bytecode that importlib keeps, by importlib's own
rules: a source that has another time or size than its bytecode says is compiled again. Whatever is not as usual is left to importlib.
"""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import MAGIC_NUMBER, cache_from_source
from types import CodeType, ModuleType
from typing import Any

_BY_TIME = MAGIC_NUMBER + bytes(4)
"""How bytecode begins that says of which time and size its source was."""
_SOURCE = ".py"
_PACKAGE = "__init__"


def _read(path: str) -> bytes:
    """A file's content, as of a file object, which asks twice as often."""
    file = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
    try:
        return os.read(file, os.fstat(file).st_size)
    finally:
        os.close(file)


class _Loader(SourceFileLoader):
    """As importlib's, of a module whose bytecode lies at `cached`, if it is kept."""

    def __init__(self, name: str, path: str, cached: str) -> None:
        super().__init__(name, path)
        self._cached = cached

    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        try:
            status = os.stat(path)
            content = _read(self._cached)
        except OSError:
            return super().get_code(fullname)
        said = (int(status.st_mtime), status.st_size)
        if content[:16] != _BY_TIME + b"".join((number & 0xFFFFFFFF).to_bytes(4, "little") for number in said):
            return super().get_code(fullname)
        try:
            code = marshal.loads(memoryview(content)[16:])
        except (EOFError, TypeError, ValueError):
            return super().get_code(fullname)
        if type(code) is not CodeType or code.co_filename != path:  # it was moved
            return super().get_code(fullname)
        return code


class _Finder:
    """Of modules within packages; what it does not find, others may."""

    def __init__(self) -> None:
        self.packages: set[str] = set()
        self._folders: dict[str, _Folder] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder.find_spec`."""
        if name.partition(".")[0] not in self.packages or type(path) is not list or len(path) != 1:
            return None
        tail = name.rpartition(".")[2]
        at: str = path[0]
        folder = self._folder(at)
        if f"{tail}{_SOURCE}" in folder.files:
            return folder.spec(name, tail)
        if tail not in folder.folders:
            return None
        inner = self._folder(f"{at}{os.sep}{tail}")
        if f"{_PACKAGE}{_SOURCE}" not in inner.files:
            return None
        spec = inner.spec(name, _PACKAGE, is_package=True)
        spec.submodule_search_locations = [inner.path]
        return spec

    def invalidate_caches(self) -> None:
        """Look at the folders again, as `importlib.invalidate_caches` asks."""
        self._folders.clear()

    def _folder(self, path: str) -> _Folder:
        found = self._folders.get(path)
        if found is None:
            found = self._folders[path] = _Folder(path)
        return found


class _Folder:
    """What lies in a folder of sources, and where their bytecode is kept."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.files: set[str] = set()
        self.folders: set[str] = set()
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    (self.folders if entry.is_dir() else self.files).add(entry.name)
        except OSError:  # no folder, as in an archive
            return
        # Wherever it is: beside the sources, or under sys.pycache_prefix.
        self._kept, self._kept_as = cache_from_source(f"{path}{os.sep}-{_SOURCE}").rsplit("-.", 1)

    def spec(self, name: str, file: str, is_package: bool = False) -> ModuleSpec:
        """Of the module `name` in the file of that name."""
        path, cached = f"{self.path}{os.sep}{file}{_SOURCE}", f"{self._kept}{file}.{self._kept_as}"
        spec = ModuleSpec(name, _Loader(name, path, cached), origin=path, is_package=is_package)
        spec.has_location = True
        spec.cached = cached
        return spec


_FINDER: Any = _Finder()


def find_quickly(package: ModuleSpec | None) -> None:
    """Find the modules of a package so, if it was itself found in a folder by importlib, and nobody looks on."""
    if package is None or type(package.loader) is not SourceFileLoader or sys.implementation.cache_tag is None:
        return
    _FINDER.packages.add(package.name)
    if _FINDER not in sys.meta_path and PathFinder in sys.meta_path:
        # Those that others have put before it, to change what they import, still come first.
        sys.meta_path.insert(sys.meta_path.index(PathFinder), _FINDER)
