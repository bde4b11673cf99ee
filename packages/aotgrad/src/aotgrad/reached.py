"""What Python functions of torch's do: of the functions that they look for by name, which ones are there now.

Flows in: functions, and where to begin. Flows out: text that is the same where they do the same, or `Undescribable`. Nothing here takes part
in compiling.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch


class Undescribable(Exception):
    """The program holds something that no text stands for; the message says what."""


class Reached:
    """All that was reached so far, and `lines` that tell of it.

    Of a function of torch's whose text is as it came along, what can differ is what the names in it stand for: all of these that are names of
    functions in torch's modules, or of methods of tensors, are taken for such. Of other functions the file and all they hold is told.
    """

    def __init__(self, plain: Callable[[Any], str], known: Callable[[Any], str]) -> None:
        """`plain`, `known`: the text of a constant, and of a built-in function; they raise `Undescribable`."""
        self.lines: list[str] = []
        self._seen: set[types.FunctionType] = set()
        self._plain, self._known = plain, known

    def function(self, function: types.FunctionType) -> None:
        """Tell of a function, and of what it reaches."""
        if function in self._seen:
            return
        self._seen.add(function)
        code, own = function.__code__, comes_along(function)
        text = "" if own else file_hash(code.co_filename)
        self.lines.append(f"{function.__module__}.{function.__qualname__} {code.co_firstlineno} {text}")
        if own and not code.co_filename.startswith(_FOLDERS[0]):
            return  # the standard library's
        kept = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        for value in (*kept, *(cell.cell_contents for cell in function.__closure__ or () if _is_full(cell))):
            self._value("", value, own)
        names = _names(code)
        modules = []
        for name in names:
            if name in function.__globals__:
                value = function.__globals__[name]
                if isinstance(value, types.ModuleType):
                    modules.append(value)
                else:
                    self._value(name, value, own)
            method = vars(torch.Tensor).get(name)
            if isinstance(method, types.FunctionType):
                self._value(name, method, own)
        met = set(modules)
        while modules:
            module = modules.pop()
            if module.__name__.partition(".")[0] != torch.__name__:
                continue
            held = vars(module)
            for name in names:
                value = held.get(name)
                if value is None:
                    continue
                if not isinstance(value, types.ModuleType):
                    self._value(name, value, True)
                elif value not in met:
                    met.add(value)
                    modules.append(value)

    def _value(self, name: str, value: Any, own: bool) -> None:
        """Tell of what a name stands for. `own`: it does so in a function of torch's."""
        if isinstance(value, types.FunctionType):
            self.lines.append(f"{name}: {value.__module__}.{value.__qualname__}")
            self.function(value)
        elif not isinstance(value, type | types.ModuleType):
            try:
                self.lines.append(f"{name}: {self._known(value) if callable(value) else self._plain(value)}")
            except (Undescribable, TypeError):  # the latter: it has no hash
                if not (own and is_known(type(value))):
                    raise Undescribable(f"{name}, which is a {type(value).__qualname__}") from None
                self.lines.append(f"{name}: {type(value).__qualname__}")


def _is_full(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:  # nothing was put there
        return False


@functools.lru_cache(maxsize=1 << 12)
def _names(code: types.CodeType) -> tuple[str, ...]:
    """All names of globals and attributes, also of the functions defined in it, in an order that is the same in all processes."""
    inner = (each for each in code.co_consts if isinstance(each, types.CodeType))
    return tuple(sorted({*code.co_names}.union(*map(_names, inner))))


_FOLDERS = tuple(f"{os.path.dirname(file)}{os.sep}" for file in (torch.__file__, os.__file__))
_OTHERS = sysconfig.get_path("purelib"), sysconfig.get_path("platlib")
ROOTS = frozenset({torch.__name__, "operator", "_operator", "builtins", "math"})


def comes_along(function: types.FunctionType) -> bool:
    """Whether a function's text is torch's or the standard library's."""
    file = function.__code__.co_filename
    return file.startswith(_FOLDERS[0]) or (file.startswith(_FOLDERS[1]) and not file.startswith(_OTHERS))


def is_known(kind: type) -> bool:
    """Whether a type comes with torch or Python."""
    root = kind.__module__.partition(".")[0]
    return root in ROOTS or root in sys.stdlib_module_names


def tell_namespaces(reached: Reached) -> None:
    """Tell of what programs put into torch's own namespaces, where its functions, and ours, look for one another.

    Raises:
        Undescribable: there is something of which no text says what it does.
    """
    for space in (torch, torch.nn.functional, torch.Tensor, torch.functional):
        for name, value in vars(space).items():
            if type(value) is types.FunctionType:
                if not comes_along(value):
                    reached.lines.append(f"{space.__name__}.{name}")
                    reached.function(value)
                elif value.__name__ != name:
                    reached.lines.append(f"{space.__name__}.{name} {value.__qualname__}")
            elif callable(value) and not isinstance(value, type) and not is_known(type(value)):
                home = sys.modules.get(type(value).__module__)
                named = next((known for known, held in vars(home).items() if held is value), None) if home else None
                if named is None:  # what it holds nobody knows
                    raise Undescribable(f"{space.__name__}.{name}, which is a {type(value).__qualname__}")
                hashed = file_hash(getattr(home, "__file__", None) or "")
                reached.lines.append(f"{space.__name__}.{name} {named} {hashed}")


@functools.cache
def file_hash(file: str) -> str:
    """Of a file's content.

    Raises:
        Undescribable: there is none.
    """
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except OSError:
        raise Undescribable(f"a function of torch's that comes from {file}") from None


def python_functions(targets: Iterable[Any]) -> Iterable[types.FunctionType]:
    """Of a graph's calls, methods by name, those that Python code does."""
    for target in targets:
        function = vars(torch.Tensor).get(target) if isinstance(target, str) else target
        if isinstance(function, types.FunctionType):
            yield function
