"""Runs an example twice, with plain calls and with captured ones, and tells what every step gave."""

from __future__ import annotations

import contextlib
import copy
import gc
import itertools
import linecache
import pathlib
import re
import sys
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from changes.table import Snapshot, told
from torch import nn

import capture

from .examples import Example

PRELUDE_PATH = pathlib.Path(__file__).with_name("prelude.py")
PRELUDE = compile(PRELUDE_PATH.read_text(), str(PRELUDE_PATH), "exec")

#: What drawn changes may write to and does not belong to an example: put back after it.
LENT_FUNCTIONS = (F.relu, F.silu, F.dropout, F.softmax, F.layer_norm)
LENT_CLASSES = (
    nn.ReLU, nn.Tanh, nn.Sigmoid, nn.Linear, nn.Dropout, nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.Identity, nn.Module,
    nn.Parameter, torch.Tensor,
)  # fmt: skip
_numbers = itertools.count()


class Patches:
    """Library attributes that steps replaced; taken back in the order they came."""

    def __init__(self) -> None:
        self.undo: list[Callable[[], None]] = []

    def patch(self, owner: Any, name: str, value: Any) -> None:
        kept = vars(owner).get(name, self)
        self.undo.append(lambda: delattr(owner, name) if kept is self else setattr(owner, name, kept))
        setattr(owner, name, value)

    def unpatch(self) -> None:
        self.undo.pop()()


class DeepSnapshot(Snapshot):
    """Tells also of a module's parameters and parts, of what functions hold and of classes of the example's own."""

    def __call__(self, value: Any) -> Any:
        if isinstance(value, str):
            return "str", re.sub(r" at 0x[0-9a-f]+", "", value)
        if id(value) in self.met:
            return "met", self.met[id(value)][0]
        if isinstance(value, torch.device):  # which of two equal ones it is says nothing
            return "device", str(value)
        if isinstance(value, capture._native.CompiledCallable):
            return self(value.__wrapped__)
        if isinstance(value, types.MethodType):
            return "method", self(value.__func__), self(value.__self__)
        if isinstance(value, types.FunctionType) and value.__module__ == "world":
            self.met[id(value)] = len(self.met), value
            return (
                "function",
                value.__name__,
                self(value.__defaults__),
                [self(c) for c in self._cells(value)],
                self(vars(value)),
            )
        if isinstance(value, type) and value.__module__ == "world":
            self.met[id(value)] = len(self.met), value
            own = {k: v for k, v in vars(value).items() if not k.startswith("_")}
            return "type", value.__name__, [base.__name__ for base in value.__mro__], self(own)
        return super().__call__(value)

    def _cells(self, value: Any) -> Iterator[Any]:
        for cell in value.__closure__ or ():
            with contextlib.suppress(ValueError):
                yield cell.cell_contents

    def _content(self, value: Any) -> Iterator[Any]:
        if isinstance(value, (set, frozenset)):
            yield sorted(self(repr(item)) for item in value)
            return
        if isinstance(value, weakref.ref):
            yield self(value())
            return
        if isinstance(value, weakref.WeakKeyDictionary):  # what a singledispatch remembers
            return
        yield from super()._content(value)
        if isinstance(value, nn.Module):
            for kind in "_parameters", "_buffers", "_modules":
                yield self(vars(value).get(kind))
            yield len(value._forward_hooks), len(value._forward_pre_hooks)


class Calls:
    """``call`` as steps see it: calls as they are, and keeps what every call gave."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.space: dict[str, Any] = {}
        self.given: set[str] = set()  #: names that are not the example's
        self._prepared: dict[int, tuple[Any, Any]] = {}  #: what was called lives on, either way

    def __call__(self, fn: Any, *args: Any) -> None:
        self._called(self.prepare(fn), args)

    def plainly(self, fn: Any, *args: Any) -> None:
        """A call of what captures by itself."""
        self._called(fn, args)

    def prepare(self, fn: Any) -> Any:
        if id(fn) not in self._prepared:
            self._prepared[id(fn)] = fn, self.compiled(fn)
        return self._prepared[id(fn)][1]

    def forget(self) -> None:
        """Let go of what was compiled."""
        self._prepared.clear()

    def compiled(self, fn: Any) -> Any:
        return fn

    def copied(self, fn: Any) -> Any:
        return copy.deepcopy(fn)

    def _called(self, fn: Any, args: Any) -> None:
        result, outcome = None, ""
        try:
            result = fn(*args)
        except Exception as error:
            outcome = told(error)
        modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_default_dtype()
        state = {name: self.space[name] for name in sorted(self.space) if name not in self.given and name[0] != "_"}
        with torch.no_grad():
            shown = DeepSnapshot()((result, args, state, self.space["LOG"]))
        self.records.append((outcome, shown, modes))


class CapturedCalls(Calls):
    """The same through ``capture.compile``; graphs run as they are, and are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.made = self.ran = 0
        self.uses: list[tuple[int, int]] = []  #: of each call, how many graphs were made and how many ran

    def compiled(self, fn: Any) -> Any:
        return capture.compile(fn, self._backend)

    def copied(self, fn: Any) -> Any:
        new = copy.deepcopy(self.prepare(fn))
        original = getattr(new, "__wrapped__", None) or new.original
        self._prepared[id(original)] = original, new
        return original

    def _called(self, fn: Any, args: Any) -> None:
        made, ran = self.made, self.ran
        super()._called(fn, args)
        self.uses.append((self.made - made, self.ran - ran))

    def _backend(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        self.made += 1
        forward = graph.forward

        def run(*args: Any) -> Any:
            self.ran += 1
            grad = torch.is_grad_enabled()
            try:
                return forward(*args)
            except Exception:
                torch.set_grad_enabled(grad)  # the graph, which switches it, did not come to its end
                raise

        return run


def raising(records: list[Any]) -> list[str]:
    """The exceptions that calls ended in."""
    return [outcome for outcome, *_ in records if outcome]


def difference(one: Any, other: Any) -> str:
    """Where two records differ first."""
    if isinstance(one, (tuple, list)) and type(one) is type(other) and len(one) == len(other):
        pairs: Any = zip(one, other)
    elif isinstance(one, dict) and isinstance(other, dict) and list(one) == list(other):
        pairs = zip(one.items(), other.items())
    else:
        return f"plain:    {one}\ncaptured: {other}"
    return next((difference(a, b) for a, b in pairs if a != b), "")


@contextlib.contextmanager
def nothing_left() -> Iterator[None]:
    """Torch is afterwards as it was: its modes, and the functions and classes that are lent to examples."""
    functions = [(fn, fn.__code__, fn.__defaults__, dict(vars(fn))) for fn in LENT_FUNCTIONS]
    classes = [(cls, dict(vars(cls))) for cls in LENT_CLASSES]
    autocast, dtype = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
    default, precision = torch.get_default_dtype(), torch.get_float32_matmul_precision()
    torch.utils.hooks.RemovableHandle.next_id = 0
    try:
        yield
    finally:
        for fn, code, defaults, names in functions:
            fn.__code__, fn.__defaults__ = code, defaults
            vars(fn).clear()
            vars(fn).update(names)
        for cls, names in classes:
            for name in [name for name in vars(cls) if name not in names]:
                delattr(cls, name)
            for name, value in names.items():
                if vars(cls)[name] is not value:
                    setattr(cls, name, value)
        for hooks in [
            value for name, value in vars(nn.modules.module).items() if re.fullmatch(r"_global_\w+_hooks(_\w+)?", name)
        ]:
            if isinstance(hooks, dict):
                hooks.clear()
        torch.set_grad_enabled(True)
        torch.set_default_dtype(default)
        torch.set_autocast_enabled("cpu", autocast)
        torch.set_autocast_dtype("cpu", dtype)
        torch.set_float32_matmul_precision(precision)
        torch.use_deterministic_algorithms(False)
        torch.backends.cuda.enable_flash_sdp(True)
        for name in [name for name in sys.modules if name.startswith("drawn_lib")]:
            del sys.modules[name]


@contextlib.contextmanager
def collected_by_steps_alone() -> Iterator[None]:
    """What refers to itself lives until a step collects it, whenever the collector would have come by."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def own(value: Any) -> Any:
    """The value, if it is of the example's own making."""
    if getattr(value, "__module__", None) != "world":
        raise TypeError(f"{type(value).__name__} is not the example's")
    return value


def run(example: Example, calls: Calls) -> list[Any]:
    """What the making of the state gave, and each step."""
    filename = f"<example {next(_numbers)}>"
    linecache.cache[filename] = len(example.world), None, example.world.splitlines(True), filename
    module = types.ModuleType("world")
    space, patches = vars(module), Patches()
    sys.modules["world"] = module
    torch.manual_seed(0)
    told_of = []
    with nothing_left(), collected_by_steps_alone(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(PRELUDE, space)
            space.update(call=calls, compiled=calls.compiled, own=own, patch=patches.patch, unpatch=patches.unpatch)
            calls.space, calls.given = space, set(space)
            world = compile(example.world, filename, "exec")
            for step in world, *example.steps:
                told_of.append((_taken(step, space), calls.records[-1:]))
        finally:
            while patches.undo:
                patches.unpatch()
            calls.forget()
            calls.space = {}
            del sys.modules["world"], linecache.cache[filename]
    return told_of


def _taken(step: Any, space: dict[str, Any]) -> str:
    """How a step failed, if it did."""
    try:
        exec(compile(step, "<step>", "exec") if isinstance(step, str) else step, space)
    except Exception as error:
        return told(error)
    return ""
