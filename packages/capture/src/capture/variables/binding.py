"""Python's own error for arguments that a function does not take: a function of the same parameters is called with them."""

from __future__ import annotations

import inspect
from types import CodeType
from typing import Any, NoReturn, Protocol

from capture.errors import Unsupported
from symshapes import build_python

from .base import Args, Interpreter, Kwargs, Variable


class Callee(Protocol):
    """What is known of a Python function."""

    code: CodeType
    defaults: list[Variable]
    kwdefaults: dict[str, Variable]


def raise_wrong_arguments(m: Interpreter, function: Callee, name: str, args: Args, kwargs: Kwargs) -> NoReturn:
    """Raise in the program what such a call raises; ``name`` is the function's ``__qualname__``."""
    try:
        twin: Any = build_python(f"def twin({_parameters(function)}): pass\n", {}, entry="twin", title="parameters")
    except SyntaxError as error:
        raise Unsupported("a call with other arguments than the function takes") from error
    twin.__qualname__ = name
    m.builder.fold(twin, [None] * len(args), dict.fromkeys(kwargs))
    raise Unsupported("a call with other arguments than the function takes")


def _parameters(function: Callee) -> str:
    code = function.code
    count, only, names = code.co_argcount, code.co_kwonlyargcount, code.co_varnames
    required = count - len(function.defaults)
    shown = [name if i < required else f"{name}=None" for i, name in enumerate(names[:count])]
    if code.co_posonlyargcount:
        shown.insert(code.co_posonlyargcount, "/")
    rest = list(names[count + only :])
    if code.co_flags & inspect.CO_VARARGS:
        shown.append(f"*{rest.pop(0)}")
    elif only:
        shown.append("*")
    shown += [f"{name}=None" if name in function.kwdefaults else name for name in names[count : count + only]]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        shown.append(f"**{rest.pop(0)}")
    return ", ".join(shown)
