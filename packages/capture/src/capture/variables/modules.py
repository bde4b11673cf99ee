"""``torch.nn.Module`` instances: parameters, buffers and submodules as attributes; a call is an inlined ``forward``."""

from __future__ import annotations

import collections
import types
from typing import Any

import torch
from torch.nn.modules import module as torch_module

from capture.compiled_module import CompiledModule
from capture.errors import Unsupported
from capture.guards import GuardKind
from capture.sources import Attr, Const, Source

from .base import Args, Interpreter, Kwargs, Variable
from .building import builds, part
from .constants import Constant
from .functions import Function, Method
from .lookups import MISSING, class_lookup, shown_type
from .mappings import Dict
from .objects import Object
from .parameters import initialise_lazy
from .tensors import Tensor

_REGISTRIES = ("_parameters", "_buffers", "_modules")
#: Those that most modules with submodules have nothing in.
_BARE = _REGISTRIES[:2]
_REGISTRATION_HOOKS = {
    "_parameters": "_global_parameter_registration_hooks",
    "_buffers": "_global_buffer_registration_hooks",
    "_modules": "_global_module_registration_hooks",
}
_HOOKS = ("_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks")
#: What hooks, parameters and buffers are kept in.
_TABLES = (dict, collections.OrderedDict)
_GLOBAL_HOOKS = [
    (name, Attr(Const(torch_module, torch_module.__name__), name, via_dict=True))
    for name in (
        "_global_backward_pre_hooks",
        "_global_backward_hooks",
        "_global_forward_hooks",
        "_global_forward_pre_hooks",
    )
]
_CALL: Any = vars(torch.nn.Module)["__call__"]
_CALL_IMPL: Any = vars(torch.nn.Module)["_call_impl"]
_IN_PLACE = "_compiled_call_impl"
#: What a call asks a module for, and its class has.
_ON_THE_WAY = (_IN_PLACE, "_call_impl", "forward")
_GETATTRIBUTE: Any = vars(object)["__getattribute__"]
_GETATTR: Any = vars(torch.nn.Module)["__getattr__"]
_SETATTR: Any = vars(torch.nn.Module)["__setattr__"]
#: What is known of them is known of these.
_CALL_CODE, _CALL_IMPL_CODE = _CALL.__code__, _CALL_IMPL.__code__
_GETATTR_CODE, _SETATTR_CODE = _GETATTR.__code__, _SETATTR.__code__

Passed = tuple[tuple[types.CodeType, int], ...]
#: The way of a call to ``_call_impl``, and to ``forward`` where there are no hooks.
_WRAPPED: Passed = ((_CALL_CODE, -1),)
_UNHOOKED: Passed = (*_WRAPPED, (_CALL_IMPL_CODE, 0))


def _is_torchs(m: Interpreter, function: types.FunctionType, code: types.CodeType) -> bool:
    """Whether a function of torch's still has the code that is known; guarded."""
    return m.guards.code_of(function) is code


def _calls_plainly(m: Interpreter, cls: type) -> bool:
    """Whether modules of a class are called by torch's function, as it was."""
    return class_lookup(m, cls, "__call__")[0] is _CALL and _is_torchs(m, _CALL, _CALL_CODE)


def _plain_forward(m: Interpreter, cls: type) -> types.FunctionType | None:
    """The ``forward`` of a class whose modules are called as torch has it."""
    plainly = (
        m.classes.answer(m, cls, _calls_plainly)
        and class_lookup(m, cls, "__getattribute__")[0] is _GETATTRIBUTE
        and class_lookup(m, cls, _IN_PLACE)[0] is None
        and class_lookup(m, cls, "_call_impl")[0] is _CALL_IMPL
        and _is_torchs(m, _CALL_IMPL, _CALL_IMPL_CODE)
    )
    forward = class_lookup(m, cls, "forward")[0] if plainly else None
    return forward if type(forward) is types.FunctionType else None


class ModuleCall(Variable):
    """What a module's call comes to, within frames of torch's that are not evaluated."""

    def __init__(self, function: Variable, passed: Passed) -> None:
        self.function = function
        self.passed = passed

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        return m.calls.call(self.function, args, kwargs)

    def calls_through(self, m: Interpreter, args: Args, kwargs: Kwargs) -> tuple[Variable, Args, Kwargs]:
        return self.function, args, kwargs


class Module(Object):
    """A real module, guarded by identity, what is read of it guarded one by one; or one made in the frame."""

    def __init__(self, cls: type, value: torch.nn.Module | None = None) -> None:
        super().__init__(cls, value)
        self._tables: dict[str, Dict] = {}

    def registered(self, m: Interpreter, name: str) -> Variable | None:
        """From the registries, as ``Module.__getattr__`` looks."""
        for registry in _REGISTRIES[2:] if self._is_bare(m) else _REGISTRIES:
            table = self.registry(m, registry)
            if table is None or (not table.entries and not table.whole(m)):  # one fact, whatever names are asked for
                continue
            found = table.under(m, name) if type(name) is str else table.find(m, Constant(name))
            if found is not None:
                return found
        return None

    def _is_bare(self, m: Interpreter) -> bool:
        """Whether it has neither parameters nor buffers of its own, as most that have submodules; guarded without looking further."""
        if m.effects.later.concerned or not self._tables.keys().isdisjoint(_BARE):
            return False
        return self._are_empty(m, _BARE)

    def missing_attribute(self, m: Interpreter, name: str) -> Variable:
        fallback, _ = class_lookup(m, self.cls, "__getattr__")
        if fallback is _GETATTR and _is_torchs(m, _GETATTR, _GETATTR_CODE):
            return self.registered_or_error(m, name)
        return super().missing_attribute(m, name)

    def registered_or_error(self, m: Interpreter, name: str) -> Variable:
        """What ``Module.__getattr__`` gives; raises ``AttributeError`` in the program."""
        found = self.registered(m, name)
        if found is not None:
            return found
        for registry in _REGISTRIES:
            table = self.instance_attribute(m, registry)
            if table is not None:
                table.realize(m).contains(m, Constant(name))
        m.guards.not_shadowed(self, name)
        m.errors.throw(AttributeError, f"{shown_type(self.cls)!r} object has no attribute {name!r}")

    def set_attribute(self, m: Interpreter, name: str, value: Variable) -> None:
        setter, _ = class_lookup(m, self.cls, "__setattr__")
        if setter is not _SETATTR or not _is_torchs(m, _SETATTR, _SETATTR_CODE):
            super().set_attribute(m, name, value)
            return
        self.module_set(m, name, value)

    def module_set(self, m: Interpreter, name: str, value: Variable) -> None:
        """``Module.__setattr__``: into the registry that the value's kind or the name's present place asks for."""
        value = value.realize(m)
        wanted = None
        if isinstance(value, Module):
            wanted = "_modules"
        elif isinstance(value, Tensor) and issubclass(value.cls, torch.nn.Parameter):
            wanted = "_parameters"
        for registry in _REGISTRIES:
            table = self.registry(m, registry)
            if table is None or (table.find(m, Constant(name)) is None and registry != wanted):
                continue
            fits = (
                m.builder.is_none(value) or registry == wanted or (registry == "_buffers" and isinstance(value, Tensor))
            )
            if not fits or (wanted is not None and registry != wanted):
                raise Unsupported(f"replacing {name!r} in a module's {registry}")
            taken = self.instance_attribute(m, name) is not None or class_lookup(m, self.cls, name)[0] is not MISSING
            if wanted is not None and taken:
                raise Unsupported(f"registering {name!r}, which is a plain attribute")
            if len(vars(torch_module)[_REGISTRATION_HOOKS[registry]]):
                raise Unsupported("module registration hooks")
            table.set_item(m, Constant(name), value)
            return
        if wanted is not None:
            m.errors.throw(AttributeError, f"cannot assign {wanted[1:-1]} before Module.__init__() call")
        self.generic_set(m, name, value)

    def registry(self, m: Interpreter, name: str) -> Dict | None:
        """One of the tables of parameters, buffers or modules; None before ``Module.__init__``."""
        known = self._tables.get(name)
        if known is not None and name not in self.attrs and not m.effects.later.active:
            return known
        entries = self.instance_attribute(m, name)
        table = None if entries is None else entries.realize(m)
        if not isinstance(table, Dict):
            return None
        if name not in self.attrs:  # an input's own, read and guarded
            self._tables[name] = table
        return table

    def delete_attribute(self, m: Interpreter, name: str) -> None:
        if self.registered(m, name) is not None:
            raise Unsupported(f"deleting {name!r} of a module")
        self.generic_delete(m, name)

    def calls_through(self, m: Interpreter, args: Args, kwargs: Kwargs) -> tuple[Variable, Args, Kwargs]:
        plainly = m.classes.answer(m, self.cls, _plain_forward) is not None
        if not plainly and not m.classes.answer(m, self.cls, _calls_plainly):
            raw = class_lookup(m, self.cls, "__call__")[0]
            return m.builder.new_method(m.builder.class_attribute(raw), self), args, kwargs
        if self.value is not None:
            initialise_lazy(m, self.value, args, kwargs)
        called, passed = self.called_as_module(m)
        return ModuleCall(called, passed), args, kwargs

    def called_as_module(self, m: Interpreter) -> tuple[Variable, Passed]:
        """What ``torch.nn.Module.__call__`` calls, whatever the class makes of it, and through which functions."""
        forward = self._plain_forward(m)
        if forward is not None:
            if self.hooked(m):
                return self.attribute(m, "_call_impl"), _WRAPPED
            return m.effects.created(Method(m.builder.class_attribute(forward), self)), _UNHOOKED
        if not self._is_left_as_it_was(m):
            in_place = self.attribute(m, _IN_PLACE).realize(m)
            if not m.builder.is_none(in_place) and not self._is_own_call(in_place):
                return in_place, _WRAPPED
        m.guards.code_of(_CALL)
        found, _ = class_lookup(m, self.cls, "_call_impl")
        if found is not _CALL_IMPL or "_call_impl" in self.attrs or "_call_impl" in self.instance_dict():
            return self.attribute(m, "_call_impl"), _WRAPPED
        m.guards.not_shadowed(self, "_call_impl")
        if not _is_torchs(m, _CALL_IMPL, _CALL_IMPL_CODE) or self.hooked(m):
            return self.attribute(m, "_call_impl"), _WRAPPED
        return self.attribute(m, "forward"), _UNHOOKED

    def _plain_forward(self, m: Interpreter) -> types.FunctionType | None:
        """The ``forward`` that a call comes to where there are no hooks, if neither class nor module has anything else on the way; guarded."""
        own, source, found = self.instance_dict(), self.source, m.classes.answer(m, self.cls, _plain_forward)
        if found is None or source is None or m.effects.later.concerned:
            return None
        if not own.keys().isdisjoint(_ON_THE_WAY) or not self.attrs.keys().isdisjoint(_ON_THE_WAY):
            return None
        m.guards.add(self.dict_source(source), GuardKind.NO_KEYS, _ON_THE_WAY)
        plain: types.FunctionType = found
        return plain

    def _is_left_as_it_was(self, m: Interpreter) -> bool:
        """Whether nothing was compiled in place of its call, where that is told by the class that has nothing there; guarded."""
        if _IN_PLACE in self.attrs or _IN_PLACE in self.instance_dict() or m.effects.later.active:
            return False
        if class_lookup(m, self.cls, "__getattribute__")[0] is not _GETATTRIBUTE:
            return False
        if class_lookup(m, self.cls, _IN_PLACE)[0] is not None:
            return False
        m.guards.not_shadowed(self, _IN_PLACE)
        return True

    def _is_own_call(self, in_place: Variable) -> bool:
        """Whether what was compiled in place of a module's call is that call, which is then part of this graph."""
        return (
            isinstance(in_place, Method)
            and in_place.owner is self
            and isinstance(in_place.function, Function)
            and in_place.function.real is _CALL_IMPL
        )

    def hooked(self, m: Interpreter) -> bool:
        """Whether any hook would run, or the call fails as it looks for them; guards that none does."""
        if not self._are_empty(m, _HOOKS):
            for name in _HOOKS:
                hooks = self.instance_attribute(m, name)
                if hooks is None or m.operators.truth(hooks.realize(m)):
                    return True
        everywhere = vars(torch_module)
        return not m.builder.are_empty([(everywhere[name], place) for name, place in _GLOBAL_HOOKS])

    def _are_empty(self, m: Interpreter, names: tuple[str, ...]) -> bool:
        """Whether its own tables of these names are there, empty and as the frame found them; guarded without looking further."""
        own, source = self.instance_dict(), self.source
        if source is None or not self.attrs.keys().isdisjoint(names):
            return False
        tables = [own.get(name) for name in names]
        for table in tables:
            if table or type(table) not in _TABLES:
                return False
        if m.builder.some_met(tables):
            return False
        m.guards.add(self.dict_source(source), GuardKind.EMPTY_AT, names)
        return True

    def __repr__(self) -> str:
        return f"<module {self.cls.__name__}>"


def module_getattr(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """``torch.nn.Module.__getattr__`` called as a function, say through ``super()``."""
    owner = args[0].realize(m)
    if not isinstance(owner, Module):
        raise Unsupported("Module.__getattr__ of an unknown object")
    return owner.registered_or_error(m, m.builder.to_python(args[1]))


def module_setattr(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """``torch.nn.Module.__setattr__`` called as a function."""
    owner = args[0].realize(m)
    if not isinstance(owner, Module):
        raise Unsupported("Module.__setattr__ of an unknown object")
    name = m.builder.to_python(args[1])
    if not isinstance(name, str):
        raise Unsupported("Module.__setattr__ of what is no name")  # what it raises depends on the value
    owner.module_set(m, name, args[2])
    return Constant(None)


def module_call(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """``torch.nn.Module.__call__`` called as a function, say through ``super()``."""
    owner = args[0].realize(m)
    if not isinstance(owner, Module):
        raise Unsupported("Module.__call__ of an unknown object")
    return m.calls.call(owner.called_as_module(m)[0], args[1:], kwargs)


@builds(torch.nn.Module, subclasses=True)
def _build_module(m: Interpreter, value: Any, source: Source | None) -> Variable:
    cls = type(value)
    if source is not None and not isinstance(source, Const):
        m.guards.add(source, GuardKind.BOUND, cls)
    m.guards.of_type(Const(value) if source is None else source, cls)
    return Module(cls, value)


@builds(CompiledModule, subclasses=True)
def _build_compiled_module(m: Interpreter, value: Any, source: Source | None) -> Variable:
    return m.builder.wrap(value.original, part(source, "original"))
