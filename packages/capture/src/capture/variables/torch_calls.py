"""Functions written in C: torch operations become graph nodes, known built-ins have handlers, pure ones are computed."""

from __future__ import annotations

import cmath
import functools
import inspect
import math
import operator
import types
from collections.abc import Callable
from typing import Any

import torch

from capture.errors import NotConstant, Unsupported
from capture.guards import GuardKind
from capture.sources import Attr, Source
from capture.trace_rules import is_operator_overload, is_recorded_builtin

from .base import Args, Interpreter, Kwargs, Variable, shown_type
from .building import builds
from .classes import allocate
from .constants import BoundBuiltin, Known
from .lookups import class_lookup
from .objects import Object
from .remembered import call_remembering

Handler = Callable[[Interpreter, Args, Kwargs], Variable]

#: Functions written in C that are understood one by one; filled by ``builtin``.
BUILTINS: dict[Any, Handler] = {}

#: Functions whose result depends on nothing but their arguments, and which change nothing.
PURE: set[Any] = {
    abs, ascii, bin, chr, divmod, format, hash, hex, oct, ord, pow, round, callable, len, min, max, sum,
    torch.promote_types, torch.result_type, torch.can_cast, torch.is_grad_enabled,
    *(f for f in vars(math).values() if isinstance(f, types.BuiltinFunctionType)),
    *(f for f in vars(cmath).values() if isinstance(f, types.BuiltinFunctionType)),
    *(
        f
        for n, f in vars(operator).items()
        if (isinstance(f, types.BuiltinFunctionType) and not n.startswith(("i", "set", "del"))) or n in ("index", "inv")
    ),
}  # fmt: skip
PURE = {f for f in PURE if callable(f)}

#: Operations never recorded: they read data or change what a graph cannot carry.
DENIED = frozenset(
    {"_nested_tensor_from_tensor_list", "from_numpy", "from_file", "frombuffer", "set_printoptions", "manual_seed"}
)


def builtin(*functions: Any) -> Callable[[Handler], Handler]:
    """Register the meaning of functions written in C."""

    def register(handler: Handler) -> Handler:
        for function in functions:
            BUILTINS[function] = handler
        return handler

    return register


class BuiltinFunction(Known):
    """A function or method descriptor written in C, or a ``torch.ops`` operator."""

    def truth(self, m: Interpreter) -> bool:
        return True

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        function = self.value
        handler = _find(function)
        if handler is not None:
            check_arguments(function, args, kwargs)
            return handler(m, args, kwargs)
        if is_recorded_builtin(function) or is_operator_overload(function):
            name = getattr(function, "__name__", "")
            if name in DENIED:
                raise Unsupported(f"torch.{name}")
            return m.record("call_function", function, args, kwargs)
        if isinstance(function, functools._lru_cache_wrapper):
            return call_remembering(m, function, args, kwargs)
        if isinstance(function, types.MethodDescriptorType | types.WrapperDescriptorType) and args:
            return self.unbound(m, m.realize(args[0]), args[1:], kwargs)
        if getattr(function, "__name__", "") == "__new__" and isinstance(function.__self__, type):
            return self.new(m, args, kwargs)
        if function in PURE:
            return self.compute(m, args, kwargs)
        raise Unsupported(f"call of {_label(function)}, which is written in C")

    def unbound(self, m: Interpreter, owner: Variable, args: Args, kwargs: Kwargs) -> Variable:
        """``list.append(x, 1)``."""
        if isinstance(owner, Object):
            return owner.builtin(m, self.value.__objclass__, self.value.__name__, args, kwargs)
        if not issubclass(owner.python_type(), self.value.__objclass__):
            m.throw(TypeError, f"descriptor {self.value.__name__!r} for another type")
        if class_lookup(m, owner.python_type(), self.value.__name__)[0] is not self.value:
            raise Unsupported(f"{_label(self.value)}, which a subclass overrides or the program has replaced")
        return owner.method(m, self.value.__name__, args, kwargs)

    def new(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        cls = m.to_python(args[0])
        owner = self.value.__self__
        if not isinstance(cls, type):
            raise Unsupported("__new__ of something that is not a class")
        return allocate(m, cls, owner, args[1:], kwargs)

    def compute(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        try:
            real = [m.to_python(a) for a in args]
            named = {k: m.to_python(v) for k, v in kwargs.items()}
        except NotConstant:
            raise Unsupported(f"{_label(self.value)} of a value that is not constant") from None
        return m.from_python(m.fold(self.value, real, named))

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name == "__get__" and hasattr(self.value, name):
            return BoundBuiltin(self, name)
        if name in ("__name__", "__qualname__", "__module__", "__doc__"):
            return m.from_python(m.fold(getattr, [self.value, name]))
        if isinstance(self.value, functools._lru_cache_wrapper) and name == "__wrapped__":
            return m.wrap(self.value.__wrapped__, m.known_attribute_source(self.value, name))
        if isinstance(self.value, torch._ops.OpOverloadPacket):
            return m.known(m.fold(getattr, [self.value, name]))
        if name == "__self__":
            return m.known(self.value.__self__)
        if name == "__call__":
            return self
        if not hasattr(self.value, name):
            m.throw(AttributeError, f"{shown_type(type(self.value))!r} object has no attribute {name!r}")
        return super().attribute(m, name)


def check_arguments(function: Any, args: Args, kwargs: Kwargs) -> None:
    """What does not take such arguments is called for real, for its own words."""
    signature = _signature(function)
    if signature is None:
        return
    least, most = signature[1:]
    if kwargs or not least <= len(args) <= most:
        try:
            signature[0].bind(*args, **kwargs)
        except TypeError as error:
            raise Unsupported(f"{_label(function)}: {error}") from None


@functools.cache
def _signature(function: Any) -> tuple[inspect.Signature, int, float] | None:
    """A function's signature, how many positional arguments it needs and how many it takes."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return None
    kinds = [(p.kind, p.default) for p in signature.parameters.values()]
    positional = [default for kind, default in kinds if kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD]
    least = sum(default is inspect.Parameter.empty for default in positional)
    takes_any = any(kind is inspect.Parameter.VAR_POSITIONAL for kind, _ in kinds)
    return signature, least, float("inf") if takes_any else len(positional)


def _find(function: Any) -> Handler | None:
    try:
        return BUILTINS.get(function)
    except TypeError:
        return None


def _label(function: Any) -> str:
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", repr(function))
    return f"{module}.{name}" if module and module != "builtins" else str(name)


@builds(
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    torch._ops.OpOverload,
    torch._ops.OpOverloadPacket,
    functools._lru_cache_wrapper,
    subclasses=True,
)
def _build_builtin(m: Interpreter, value: Any, source: Source | None) -> Variable:
    owner = getattr(value, "__self__", None)
    if isinstance(value, functools._lru_cache_wrapper):
        return m.identity(BuiltinFunction(value), source)
    if isinstance(value, types.MethodWrapperType) or (
        isinstance(value, types.BuiltinFunctionType)
        and owner is not None
        and not isinstance(owner, types.ModuleType | type)
        and hasattr(type(owner), value.__name__)  # not so for functions of C++ bindings
    ):
        if source is None:
            raise Unsupported(f"built-in method {value!r} of unknown origin")
        m.guard(source, GuardKind.TYPE, type(value))
        bound = m.wrap(owner, Attr(source, "__self__"))
        m.guard(Attr(source, "__name__"), GuardKind.EQUALS, value.__name__)
        return bound.attribute(m, value.__name__)
    return m.identity(BuiltinFunction(value), source)
