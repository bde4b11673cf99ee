"""The table of programs, what they are given to call and to change with, and what is kept of each call for comparison."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import _disable_current_modes

import capture

MISSING: Any = object()

#: Programs by "family-name". A program gets a ``Recorder`` and is run twice: with plain calls and with captured ones.
PROGRAMS: dict[str, Callable[[Any], None]] = {}


def family(name: str) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """A decorator that enters a program under its function's name."""

    def enter(program: Callable[[Any], None]) -> Callable[[Any], None]:
        key = f"{name}-{program.__name__}"
        assert key not in PROGRAMS, key
        PROGRAMS[key] = program
        return program

    return enter


def vector() -> torch.Tensor:
    return torch.tensor([-1.0, 2.0, 0.5])


def matrix() -> torch.Tensor:
    return torch.arange(6.0).reshape(2, 3) - 2.5


class Recorder:
    """Calls functions as they are, and keeps what every call gave: result or exception, output, arguments and state."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.state: Any = None  #: what else to look at after each call

    def prepare(self, fn: Any) -> Any:
        # As code that never ran: what 3.14 has found out about a module's attribute it believes of the module with another class, too.
        if sys.version_info >= (3, 14) and isinstance(fn, types.FunctionType):
            fn.__code__ = fn.__code__.replace()
        return fn

    def __call__(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        """The function's result, or None if it raised."""
        printed, result, outcome = io.StringIO(), None, ""
        prepared = self.prepare(fn)
        with contextlib.redirect_stdout(printed):
            try:
                result = prepared(*args, **kwargs)
            except Exception as error:
                outcome = told(error)
        shown = Snapshot()((result, args, kwargs, self.state))
        modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_default_dtype()
        self.records.append((outcome, shown, printed.getvalue(), modes))
        return result

    def note(self, *values: Any) -> None:
        self.records.append(Snapshot()(values))

    def across(self, changes: Any, fn: Any, /, *args: Any, **kwargs: Any) -> None:
        """Call, make the change, call twice, undo it, call; so for each change."""
        self(fn, *args, **kwargs)
        for change in changes if isinstance(changes, list) else [changes]:
            with change:
                self(fn, *args, **kwargs)
                self(fn, *args, **kwargs)
            self(fn, *args, **kwargs)


class CapturingRecorder(Recorder):
    """The same calls through ``capture.compile``; graphs run as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.graphs = 0
        self._prepared: dict[int, tuple[Any, Any]] = {}

    def prepare(self, fn: Any) -> Any:
        if id(fn) not in self._prepared:
            self._prepared[id(fn)] = fn, capture.compile(fn, self._backend)
        return self._prepared[id(fn)][1]

    def _backend(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        self.graphs += 1
        return graph.forward


def told(error: BaseException | None) -> str:
    """Type and message (without addresses), of the cause and the context too."""
    if error is None:
        return ""
    message = re.sub(r" at 0x[0-9a-f]+", "", str(error))
    return f"{type(error).__name__}: {message} | {told(error.__cause__)} | {type(error.__context__).__name__}"


class Snapshot:
    """Values as nested tuples of plain data; a mutable value met again is told by its number, so sharing shows."""

    def __init__(self) -> None:
        self.met: dict[int, tuple[int, Any]] = {}

    def __call__(self, value: Any) -> Any:
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes, range, slice, torch.dtype)):
            return type(value).__name__, repr(value)
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)):
            return type(value).__name__, value.__name__
        if id(value) in self.met:
            return "met", self.met[id(value)][0]
        self.met[id(value)] = len(self.met), value
        return type(value).__name__, *self._content(value)

    def _content(self, value: Any) -> Iterator[Any]:
        if isinstance(value, torch.Tensor):
            yield self._tensor(value)
            return
        if isinstance(value, BaseException):
            yield told(value)
            return
        if isinstance(value, dict):
            yield [(self(key), self(item)) for key, item in value.items()]
        elif isinstance(value, (set, frozenset)):
            yield sorted(repr(item) for item in value)
        elif isinstance(value, (list, tuple)) or type(value).__name__ == "deque":
            yield [self(item) for item in value]
        try:
            names = object.__getattribute__(value, "__dict__")
        except AttributeError:
            names = {}
        yield {name: self(item) for name, item in names.items() if not name.startswith("_")}

    def _tensor(self, value: torch.Tensor) -> Any:
        with torch._C.DisableTorchFunction(), _disable_current_modes():
            if value.layout is not torch.strided:
                return value.layout, self(value.to_dense())
            layout = value.dtype, tuple(value.shape), value.stride(), value.storage_offset(), value.requires_grad
            flags = value.is_inference(), value.is_conj(), value.is_neg(), value._is_view(), value.device.type
            plain = value.detach().resolve_conj().resolve_neg()
            return layout, flags, None if value.is_meta else repr(plain.tolist())


class changed:
    """An attribute, or a dictionary's item, is another while the block runs."""

    def __init__(self, target: Any, name: Any, value: Any) -> None:
        self.target, self.name, self.value = target, name, value

    def __enter__(self) -> None:
        self.before = self._read()
        self._write(self.value)

    def __exit__(self, *exc: object) -> None:
        self._write(self.before)

    def _read(self) -> Any:
        target, name = self.target, self.name
        if isinstance(target, dict):
            return target.get(name, MISSING)
        computed = hasattr(type(inspect.getattr_static(type(target), name, None)), "__set__")
        registered = isinstance(target, nn.Module) and any(
            name in vars(target)[kind] for kind in ("_modules", "_parameters", "_buffers")
        )
        if computed or registered or not hasattr(target, "__dict__"):
            return getattr(target, name, MISSING)
        return vars(target).get(name, MISSING)

    def _write(self, value: Any) -> None:
        if isinstance(self.target, dict):
            if value is MISSING:
                self.target.pop(self.name, None)
            else:
                self.target[self.name] = value
        elif value is not MISSING:
            setattr(self.target, self.name, value)
        elif self._read() is not MISSING:
            delattr(self.target, self.name)


def removed(target: Any, name: Any) -> changed:
    return changed(target, name, MISSING)


@contextlib.contextmanager
def between(do: Callable[[], Any], undo: Callable[[], Any]) -> Iterator[None]:
    """A change given as what makes it and what takes it back."""
    do()
    try:
        yield
    finally:
        undo()
