"""Python that the parts generate: built here, shown in tracebacks while it lives, and known as ours by its code objects.

Flows in: text and the objects that it refers to by name. Flows out: what the text defines. Listeners hear of each code.
"""

from __future__ import annotations

import builtins
import itertools
import linecache
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any

_numbers = itertools.count()
_marked: dict[int, weakref.ref[CodeType]] = {}  # by identity: code objects of equal content compare equal
_listeners: list[Callable[[CodeType], object]] = []
_alive: dict[str, int] = {}  # by name in linecache: how many of the text's code objects live
_folders: set[str] = set()


def build_python(text: str, names: Mapping[str, Any], *, entry: str, title: str, path: str | None = None) -> Any:
    """Execute Python text and return what it calls `entry`, which alone keeps the rest alive.

    Tracebacks and debuggers show the text's lines until its code is freed. All its code objects are marked.

    Args:
        names: what the text refers to.
        title: names the text in tracebacks: `<title 12>`.
        path: the file that the text is stored in, if there is one: named instead.

    Raises:
        SyntaxError: the text is no Python.
        KeyError: it defines no `entry`.
    """
    name = path or f"<{title} {next(_numbers)}>"
    code = compile(text, name, "exec", dont_inherit=True)
    mark_generated(code)
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    for part in _inner(code):
        _alive[name] = _alive.get(name, 0) + 1
        weakref.finalize(part, _forget_part, name).atexit = False
    namespace = {"__name__": title, **names}
    exec(code, namespace)
    # Out of its own namespace: a cycle would keep it, and all that it refers to, until the next garbage collection.
    return namespace.pop(entry)


def build_function(code: CodeType, text: Callable[[], str], *, title: str) -> FunctionType:
    """A function of a code object that was put together without text, with a name for its file: alike to what `build_python` makes.

    Args:
        text: gives what tracebacks and debuggers show, by the code's lines, once somebody asks.
        title: names the text in tracebacks: `<title 12>`.
    """
    name = f"<{title} {next(_numbers)}>"
    code = code.replace(co_filename=name)
    _mark(code)
    linecache.cache[name] = (0, None, _Lines(text), name)
    _alive[name] = 1
    weakref.finalize(code, _forget_part, name).atexit = False
    # C imports by the builtins that it finds in the globals of who called it, as torch does where a mode sees its functions.
    return FunctionType(code, {"__name__": title, "__builtins__": builtins})


class _Lines(list[str]):
    """The lines of a text that nobody may ever look at."""

    def __init__(self, text: Callable[[], str]) -> None:
        super().__init__()
        self._text: Callable[[], str] | None = text

    def _fill(self) -> None:
        if self._text is not None:
            text, self._text = self._text, None
            self.extend(text().splitlines(keepends=True))

    def __len__(self) -> int:
        self._fill()
        return super().__len__()

    def __getitem__(self, index: Any) -> Any:
        self._fill()
        return super().__getitem__(index)

    def __iter__(self) -> Iterator[str]:
        self._fill()
        return super().__iter__()


def mark_generated(code: CodeType) -> None:
    """Note that a code object, and those inside it, are generated: never part of a user's program."""
    _mark(code)
    for part in _inner(code):
        _mark(part)


def is_generated(code: CodeType) -> bool:
    """Whether this very code object was marked."""
    known = _marked.get(id(code))
    return known is not None and known() is code


def on_generated(listener: Callable[[CodeType], object]) -> None:
    """Have `listener` called with every code object that is marked, those marked already included."""
    _listeners.append(listener)
    for known in list(_marked.values()):
        code = known()
        if code is not None:
            listener(code)


def reset_generated() -> None:
    """Take the lines of all generated text out of `linecache`, also of what still lives."""
    for name in list(_alive):
        linecache.cache.pop(name, None)


def own_folders(paths: Iterable[str]) -> None:
    """Each part says where it lies (its `__path__`): code from there is never part of a user's program."""
    _folders.update(os.path.realpath(path) + os.sep for path in paths)


def is_own_file(path: str) -> bool:
    """Whether a file (its real path) belongs to one of the parts that are imported."""
    return any(path.startswith(folder) for folder in _folders)


def _inner(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _inner(constant)


def _mark(code: CodeType) -> None:
    if is_generated(code):
        return
    key = id(code)
    _marked[key] = weakref.ref(code, lambda gone: _forget_code(key, gone))
    for listener in _listeners:
        listener(code)


def _forget_code(key: int, gone: weakref.ref[CodeType]) -> None:
    if _marked.get(key) is gone:
        del _marked[key]


def _forget_part(name: str) -> None:
    """The lines are wanted as long as anything of the text lives."""
    _alive[name] -= 1
    if not _alive[name]:
        del _alive[name]
        linecache.cache.pop(name, None)
