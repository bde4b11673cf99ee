"""Whose code is whose: which frames are captured, whose globals are taken as fixed, which functions are graph ops."""

from __future__ import annotations

import dis
import functools
import inspect
import os
import sys
import sysconfig
import types
from typing import Any

import torch

from capture._native import function_code
from symshapes import is_own_file, override_questions

_STDLIB = {os.path.realpath(sysconfig.get_paths()[k]) + os.sep for k in ("stdlib", "platstdlib")}
_TORCH = os.path.dirname(os.path.realpath(torch.__file__)) + os.sep
_TORCH_NN = os.path.join(_TORCH, "nn", "modules") + os.sep
_TORCH_NN_BASE = os.path.join(_TORCH_NN, "module.py")

#: Installed packages that are tools around a program, not part of its computation.
_INFRASTRUCTURE = frozenset(
    {
        "pytest", "_pytest", "pluggy", "hypothesis", "numpy", "sympy", "mpmath", "networkx", "triton", "filelock",
        "fsspec", "tqdm", "rich", "yaml", "regex", "tokenizers", "safetensors", "jinja2", "pydantic", "httpx",
        "packaging", "typing_extensions", "setuptools", "pip", "coverage", "matplotlib", "pandas", "scipy",
    }
)  # fmt: skip

#: Torch modules whose Python functions are one graph node when they get a tensor.
_RECORDED = frozenset({"torch.nn.functional", "torch.functional", "torch._tensor", "torch._VF"})

#: Those of them that have plain code besides.
_WITH_STEPS = frozenset({"torch.nn.functional", "torch._tensor"})
#: Modules of operations written in C.
_RECORDED_C = frozenset(
    {
        "torch._C._nn",
        "torch._C._fft",
        "torch._C._linalg",
        "torch._C._special",
        "torch._C._sparse",
        "torch._C._nested",
    }
)

#: What this project replaces; calling into it from a captured program is never traced.
_FOREIGN = (
    "torch._dynamo",
    "torch._inductor",
    "torch._functorch",
    "torch._export",
    "torch.fx.experimental",
    "torch.onnx",
    "torch.distributed",
    "torch.jit",
)


#: Of these, what does nothing but call what it is given.
_PLAIN = frozenset({"torch._dynamo.comptime"})
#: Torch's own Python of `torch.func`, which is traced into.
_TRANSFORMS = frozenset(
    f"torch._functorch.{name}" for name in ("apis", "eager_transforms", "functional_call", "utils", "vmap")
)


def are_of_module(namespace: dict[str, Any]) -> bool:
    """Whether globals are those of a module that is imported, which stays: others are made as programs run (``exec``)."""
    name = namespace.get("__name__")
    module = sys.modules.get(name) if type(name) is str else None
    return (
        issubclass(type(module), types.ModuleType)
        and types.ModuleType.__getattribute__(module, "__dict__") is namespace
    )


def is_torchs(filename: str) -> bool:
    """Whether code is of torch's own Python."""
    return filename.startswith(_TORCH)


@functools.cache
def _package_of_file(filename: str) -> str | None:
    """The top package of an installed file; None for a file outside site-packages."""
    parts = filename.split(os.sep)
    for folder in ("site-packages", "dist-packages"):
        if folder in parts:
            after = parts[parts.index(folder) + 1 :]
            return after[0].removesuffix(".py") if after else None
    return None


def file_of(code: types.CodeType, module_globals: dict[str, Any]) -> str:
    """Where code comes from; for code that a program made from text (a dataclass's methods), its module's file."""
    name = code.co_filename
    if name.startswith("<") and not name.startswith("<frozen"):
        file = module_globals.get("__file__")
        # What this project makes of a user's callable is the user's.
        return file if isinstance(file, str) and not is_own_file(os.path.realpath(file)) else name
    return name


@functools.cache
def is_infrastructure(filename: str) -> bool:
    """Code that is never captured as a frame of its own: torch, the standard library, tools, this project."""
    if filename.startswith("<frozen"):
        return True
    if filename.startswith("<"):
        return False
    path = os.path.realpath(filename)
    if path.startswith(_TORCH_NN) and path != _TORCH_NN_BASE:
        return False
    if path.startswith(_TORCH) or is_own_file(path):
        return True
    package = _package_of_file(path)
    if package is not None:
        return package in _INFRASTRUCTURE
    return any(path.startswith(prefix) for prefix in _STDLIB)


@functools.cache
def is_library_line(filename: str) -> bool:
    """Whether a line of this file is not the user's own, for messages."""
    path = os.path.realpath(filename)
    return (
        filename.startswith("<frozen")
        or path.startswith(_TORCH)
        or any(path.startswith(p) and _package_of_file(path) is None for p in _STDLIB)
    )


@functools.cache
def is_uninstalled(filename: str) -> bool:
    """Whether code is neither of what this project never captures nor of anything else that is installed."""
    return not is_infrastructure(filename) and _package_of_file(os.path.realpath(filename)) is None


def module_of(function: types.FunctionType) -> str:
    """The module that a function's code was written in; "" where that is not sure.

    Told by what cannot be copied onto another function, as ``functools.wraps`` copies ``__module__`` and names: the
    globals are the module's, and the code is of its file.
    """
    namespace = function.__globals__
    name = namespace.get("__name__")
    module = sys.modules.get(name) if isinstance(name, str) else None
    if module is None or module.__dict__ is not namespace:
        return ""
    file = function_code(function).co_filename
    return name if file == namespace.get("__file__") or file.startswith("<frozen ") else ""  # type: ignore[return-value]


def is_transform(module: str) -> bool:
    """Whether it is a module of torch's function transforms."""
    return module in _TRANSFORMS


@functools.cache
def is_foreign(module: str) -> bool:
    """Whether functions of this module belong to machinery that is not traced into."""
    plain = module in _PLAIN or module in _TRANSFORMS
    return not plain and any(module == p or module.startswith(p + ".") for p in _FOREIGN)


#: Instructions that call, or change what others see.
_ACTS = ("CALL", "IMPORT", "STORE_ATTR", "STORE_SUBSCR", "STORE_GLOBAL", "DELETE", "YIELD", "SEND")


@functools.cache
def only_reads(code: types.CodeType) -> bool:
    """Whether code reads what is there and calls nothing by name: whoever's it is, it can be evaluated."""
    return not any(part in each.opname for each in dis.get_instructions(code) for part in _ACTS)


def wrapped_init(function: types.FunctionType) -> types.FunctionType | None:
    """What `torch.nn.Module.__init__` was before another compiler put this function in its place; None for any other function.

    It counts the modules that are made, for that compiler, and calls what was there.
    """
    if torch.nn.Module.__init__ is not function:
        return None
    held = inspect.getclosurevars(function).nonlocals.values()
    inner = [each for each in held if isinstance(each, types.FunctionType) and each.__name__ == "__init__"]
    return inner[0] if len(inner) == 1 and module_of(inner[0]) == torch.nn.Module.__module__ else None


def is_recorded_python(function: types.FunctionType, module: str) -> bool:
    """Whether a Python function of this module of torch is one graph node when a tensor is among its arguments.

    One that asks whether it is overridden is an operation; others (`F._canonical_mask`, `Tensor.__torch_function__`) are steps of
    those, and plain code.
    """
    return module in _RECORDED and (module not in _WITH_STEPS or bool(override_questions(function)))


def is_recorded_builtin(function: Any) -> bool:
    """Whether a function written in C is a tensor operation."""
    if getattr(function, "__qualname__", "").startswith("_VariableFunctionsClass."):
        return True
    owner = getattr(function, "__self__", None)
    return isinstance(owner, types.ModuleType) and owner.__name__ in _RECORDED_C
