"""Functions written in C: torch operations become graph nodes; methods are those of the value they are called on."""

from __future__ import annotations

import functools
import types
from typing import Any

import torch

from capture._torch import (
    OpOverload,
    OpOverloadPacket,
    nested_from_list,
    set_saved_tensor_hooks,
    take_saved_tensor_hooks,
)
from capture.errors import Unsupported
from capture.guards import GuardKind
from capture.sources import Attr, Const, Source
from capture.trace_rules import is_recorded_builtin

from .base import Args, Interpreter, Kwargs, Variable
from .building import builds
from .classes import allocate
from .constants import BoundBuiltin, Known, looked_up, refuse_of_alike
from .descriptors import descriptor_get
from .handlers import Fold, checked_arguments, handler_of, label, refuses
from .lookups import class_lookup, is_among, is_data_descriptor, own_entry, shown_type
from .marks_of_functions import mark_of
from .new_mappings import from_keys, inherits_from_keys
from .objects import Object
from .remembered import call_remembering
from .tensors import Accessor, Tensor

# They read data, or change what a graph cannot carry.
refuses(
    nested_from_list, torch.ops.aten._nested_tensor_from_tensor_list, torch.from_file,
    torch.ops.aten.from_file, torch.frombuffer, why="a tensor made of memory or files that are not torch's",
)  # fmt: skip
# By the name of its place: what the program enters sees operations as they run, and no graph.
refuses("torch.utils._python_dispatch.TorchDispatchMode.__enter__", why="a dispatch mode is entered")
# What is kept for a backward, and by which operations, is a graph's own matter.
refuses(
    set_saved_tensor_hooks, take_saved_tensor_hooks, why="hooks on what autograd saves, which a graph does otherwise"
)
refuses(torch.is_anomaly_enabled, torch.set_anomaly_enabled, why="anomaly mode, which sees what autograd notes")


#: The classes that have the methods of tensors that are written in C.
_TENSORS = tuple(cls for cls in torch.Tensor.__mro__ if cls is not object)


class BuiltinFunction(Known):
    """A function or method descriptor written in C, or a ``torch.ops`` operator."""

    def truth(self, m: Interpreter) -> bool:
        return True

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        function = self.value
        marked = mark_of(function)
        if marked is not None:
            return marked(m, function, args, kwargs)
        is_operation = is_recorded_builtin(function)
        if (
            is_operation
            or getattr(function, "__objclass__", None) in _TENSORS
            or isinstance(function, (OpOverload, OpOverloadPacket))
        ):
            told = m.modes.answer(function, args, kwargs)
            if told is not None:
                return told
        handler = handler_of(function)
        if handler is not None:
            if not isinstance(handler, Fold):
                args, kwargs = checked_arguments(function, args, kwargs)
            return handler(m, args, kwargs)
        if is_operation or isinstance(function, (OpOverload, OpOverloadPacket)):
            return m.recorder.record("call_function", function, args, kwargs)
        if isinstance(function, functools._lru_cache_wrapper):
            return call_remembering(m, function, args, kwargs)
        if isinstance(function, (types.MethodDescriptorType, types.WrapperDescriptorType)) and args:
            return self.unbound(m, args[0].realize(m), args[1:], kwargs)
        if getattr(function, "__name__", "") == "__new__" and isinstance(function.__self__, type):
            return self.new(m, args, kwargs)
        if isinstance(function, types.BuiltinFunctionType) and inherits_from_keys(function):
            return from_keys(m, self.value.__self__, args, kwargs)
        raise Unsupported(f"call of {label(function)}, which is written in C")

    def unbound(self, m: Interpreter, owner: Variable, args: Args, kwargs: Kwargs) -> Variable:
        """``list.append(x, 1)``."""
        if isinstance(owner, Object):
            return owner.builtin(m, self.value.__objclass__, self.value.__name__, args, kwargs)
        if not issubclass(owner.python_type(), self.value.__objclass__):
            m.errors.throw(TypeError, f"descriptor {self.value.__name__!r} for another type")
        if isinstance(owner, Tensor) and self.value.__objclass__ in _TENSORS:
            return owner.torch_method(m, self.value.__name__, [arg.realize(m) for arg in args], kwargs)
        if isinstance(owner, Tensor) and self.value.__objclass__ is object:
            found = owner.of_object(m, self.value.__name__, args)
            if found is not None:
                return found
        if class_lookup(m, owner.python_type(), self.value.__name__)[0] is not self.value:
            raise Unsupported(f"{label(self.value)}, which a subclass overrides or the program has replaced")
        return owner.method(m, self.value.__name__, args, kwargs)

    def new(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        """``cls.__new__(cls, ...)`` of a class written in C."""
        owner = self.value.__self__
        if not args:
            raise Unsupported(f"{owner.__name__}.__new__ without a class")
        cls = looked_up(m, args[0])
        if not isinstance(cls, type) or not is_among(owner, cls.__mro__) or _maker(m, cls) is not self.value:
            m.builder.fold(self.value, [cls])  # raises: it would not make what the class is
        return allocate(m, cls, owner, args[1:], kwargs)

    def attribute(self, m: Interpreter, name: str) -> Variable:
        found = self._own_attribute(m, name) if hasattr(self.value, "__dict__") else None
        if found is not None:
            return found
        if name in Accessor.METHODS and reads_tensors(self.value):
            return Accessor(getattr(self.value, name))
        if name == "__get__" and isinstance(self.value, types.GetSetDescriptorType):
            raise Unsupported(f"what {self!r} reads")
        if name == "__get__" and hasattr(self.value, name):
            return BoundBuiltin(self, name)
        if name in ("__name__", "__qualname__", "__module__", "__doc__"):
            told = m.builder.fold(getattr, [self.value, name])
            if name == "__module__":  # which can be set
                return m.builder.wrap(told, Attr(self._place(), name))
            return m.builder.from_python(told)
        if name == "__call__":
            return self
        if name == "__self__" and hasattr(self.value, name):
            return m.builder.known(self.value.__self__)
        if not hasattr(self.value, name):
            m.errors.throw(AttributeError, f"{shown_type(type(self.value))!r} object has no attribute {name!r}")
        if isinstance(self.value, (OpOverload, OpOverloadPacket)):  # which are written in Python
            raw, owner = class_lookup(m, type(self.value), name)
            if isinstance(raw, (types.FunctionType, property)):
                return descriptor_get(m, raw, owner, self, type(self.value), name)
        return super().attribute(m, name)

    def _own_attribute(self, m: Interpreter, name: str) -> Variable | None:
        """What programs, and wrappers of functions, put into the dictionary of one that has its own."""
        cls = type(self.value)
        if is_data_descriptor(m, class_lookup(m, cls, name)[0]):
            return None
        if isinstance(self.value, OpOverloadPacket):
            hasattr(self.value, name)  # it puts an overload there as it is first asked for
        return own_entry(m, self.value, self._place(), name)

    def _place(self) -> Source:
        return self.source or Const(self.value, label(self.value))


def reads_tensors(value: Any) -> bool:
    """Whether it is what an attribute of tensors is read and set by."""
    return isinstance(value, types.GetSetDescriptorType) and is_among(value.__objclass__, _TENSORS)


def _maker(m: Interpreter, cls: type) -> Any:
    """The ``__new__``, written in C, of the first base along a class's memory layout that has none written in Python."""
    base: type | None = cls
    while base is not None:
        found = class_lookup(m, base, "__new__")[0]
        if isinstance(found, types.BuiltinFunctionType):
            return found
        base = base.__base__
    return None


@builds(
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    OpOverload,
    OpOverloadPacket,
    functools._lru_cache_wrapper,
    subclasses=True,
)
def _build_builtin(m: Interpreter, value: Any, source: Source | None) -> Variable:
    owner = getattr(value, "__self__", None)
    if isinstance(value, types.MethodWrapperType) and value.__name__ in Accessor.METHODS and reads_tensors(owner):
        return m.builder.identified(Accessor(value), source)
    if isinstance(value, functools._lru_cache_wrapper):
        refuse_of_alike(m, value, source)
        return m.builder.identified(BuiltinFunction(value), source)
    if isinstance(value, types.MethodWrapperType) or (
        isinstance(value, types.BuiltinFunctionType)
        and owner is not None
        and not isinstance(owner, (types.ModuleType, type))
        and hasattr(type(owner), value.__name__)  # not so for functions of C++ bindings
    ):
        if source is None:
            raise Unsupported(f"built-in method {value!r} of unknown origin")
        m.guards.add(source, GuardKind.TYPE, type(value))
        bound = m.builder.wrap(owner, Attr(source, "__self__"))
        m.guards.add(Attr(source, "__name__"), GuardKind.EQUALS, value.__name__)
        return bound.attribute(m, value.__name__)
    return m.builder.identified(BuiltinFunction(value), source)
