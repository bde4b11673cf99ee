"""`find_quickly`: modules of our packages are found and read with fewer questions to the file system.

Flows in: a package's specification. Flows out: a finder before that of `sys.path`, which knows what lies in the package's folders. For each module
importlib asks twelve times, most of them through Python; with this it asks five times. What is kept of a source, and whether that still holds, is
importlib's to say: only who looks for files, and reads them, is another. Whatever is not as usual is left to importlib. Auditors are told of each
file as it is opened; of an interpreter whose embedder opens code by itself (`io.open_code`) nothing is asked.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from os import O_RDONLY, close, fstat, read, scandir, sep  # those of now: tests put others in their places
from os import open as open_file
from os.path import isabs
from types import ModuleType
from typing import Any

_SOURCE = ".py"
_PACKAGE = "__init__"
_PATH_HOOKS = list(sys.path_hooks)


class _Loader(SourceFileLoader):
    """As importlib's."""

    def get_data(self, path: str) -> bytes:
        """A file's content, as of a file object, which asks twice as often."""
        try:
            file = open_file(path, O_RDONLY)
        except FileNotFoundError:
            if path != self.path:  # what is kept of the source, which may not be there
                raise
            raise ModuleNotFoundError(f"No module named {self.name!r}", name=self.name) from None
        try:
            return read(file, fstat(file).st_size)
        finally:
            close(file)


class _Folder:
    """What a folder of sources had when it was first asked for."""

    def __init__(self, path: str) -> None:
        self.modules: set[str] = set()
        self.folders: set[str] = set()
        seen: set[str] = set()
        several: set[str] = set()
        try:
            with scandir(path) as entries:
                for entry in entries:
                    stem, dot, _ = entry.name.partition(".")
                    (several if stem in seen else seen).add(stem)
                    if entry.name == stem + _SOURCE:
                        self.modules.add(stem)
                    elif not dot and entry.is_dir():
                        self.folders.add(stem)
        except OSError:  # as in an archive, or where something is not for us to see
            several = seen
        # Which of several of a name counts, importlib says.
        self.modules -= several
        self.folders -= several


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
        at, tail = path[0], name.rpartition(".")[2]
        if type(at) is not str or not isabs(at) or sys.path_hooks != _PATH_HOOKS:
            return None  # or somebody loads modules of folders otherwise
        folder = self._folder(at)
        if tail in folder.modules:
            return _spec(name, f"{at}{sep}{tail}{_SOURCE}")
        inner = f"{at}{sep}{tail}"
        if tail not in folder.folders or _PACKAGE not in self._folder(inner).modules:
            return None
        return _spec(name, f"{inner}{sep}{_PACKAGE}{_SOURCE}", within=inner)

    def invalidate_caches(self) -> None:
        """Look at the folders again, as `importlib.invalidate_caches` asks."""
        self._folders.clear()

    def _folder(self, path: str) -> _Folder:
        found = self._folders.get(path)
        if found is None:
            found = self._folders[path] = _Folder(path)
        return found


def _spec(name: str, path: str, within: str | None = None) -> ModuleSpec:
    spec = ModuleSpec(name, _Loader(name, path), origin=path, is_package=within is not None)
    if within is not None:
        spec.submodule_search_locations = [within]
    spec.has_location = True
    return spec


_FINDER: Any = _Finder()


def find_quickly(package: ModuleSpec | None) -> None:
    """Find the modules of a package so, if it was itself found in a folder by importlib."""
    if package is None or type(package.loader) is not SourceFileLoader:
        return
    _FINDER.packages.add(package.name)
    if _FINDER not in sys.meta_path and PathFinder in sys.meta_path:
        # Those that others have put before it, to change what they import, still come first.
        sys.meta_path.insert(sys.meta_path.index(PathFinder), _FINDER)
