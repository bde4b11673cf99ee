"""Tensors of the program's classes: in the graph is their memory as a plain tensor, whose results get the class where they leave it.

In: tensors from outside, and those made by ``as_subclass``, ``_make_subclass`` and the class itself. Out: variables of tensors, of which
torch asks the class. Classes that are asked below autograd (``__torch_dispatch__``) are those of ``wrappers``.
"""

from __future__ import annotations

from collections.abc import Hashable
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any

import torch

from capture import _torch
from capture.errors import Unsupported
from capture.guards import Guard, GuardKind
from capture.sources import Applied, Attr, Source

from . import autograd_state
from .autograd_history import hooked
from .base import Args, Interpreter, Kwargs, Variable
from .constants import Constant, looked_up
from .descriptors import descriptor_get
from .handlers import handles
from .lookups import MISSING, attribute_name, class_lookup, is_data_descriptor, overrides_functions, shown_holder
from .reconstruction import Emitter
from .tensors import Tensor

#: The classes of which torch has all that they do.
OWN_CLASSES = torch.Tensor.__mro__


def check_followed(m: Interpreter, cls: type) -> None:
    """Raise ``Unsupported`` for a class of tensors that no plain tensor can stand for."""
    if getattr(cls, "__torch_dispatch__", None) is not _torch.NO_DISPATCH:
        raise Unsupported(f"tensor subclass {cls.__name__}")
    check_class(m, cls)


def check_class(m: Interpreter, cls: type) -> None:
    """Raise ``Unsupported`` for a class of tensors of which nothing can be said."""
    if _waits_for_data(cls):
        raise Unsupported(f"tensor subclass {cls.__name__}")
    if class_lookup(m, cls, "__getattribute__")[1] not in OWN_CLASSES:  # whoever looks at the real one would ask it
        raise Unsupported(f"tensor subclass {cls.__name__}, which has its own __getattribute__")


def _waits_for_data(cls: type) -> bool:
    """Whether it is one of torch's own, which have no data before a first call."""
    return issubclass(cls, (torch.nn.UninitializedParameter, torch.nn.UninitializedBuffer))


def check_unseen_where_saved(m: Interpreter) -> None:
    """Raise ``Unsupported`` where hooks of the program's on what is saved would see a graph's tensors in place of those of a class."""
    if not torch.is_grad_enabled():
        return
    history = m.recorder.autograd
    if history.is_hooked:
        so = Guard(None, GuardKind.ANSWER, (hooked, (), True))
        raise Unsupported("a tensor subclass under saved-tensor hooks of the program's", while_so=(so,))
    if history.is_watched:
        m.guards.add(None, GuardKind.ANSWER, (hooked, (), False))
    else:  # asked of C
        m.guards.add(None, GuardKind.ANSWER, (_torch.saved_tensor_hooks, (False,), None))


class SubclassTensor(Tensor):
    """A tensor of a class of the program's."""

    def overrides(self, m: Interpreter) -> bool:
        return overrides_functions(m, self.cls)

    def replaced(self, m: Interpreter, name: str) -> Any:
        raw, owner = class_lookup(m, self.cls, name)
        return super().replaced(m, name) if raw is MISSING or owner in OWN_CLASSES else raw

    def has_own(self, m: Interpreter, name: str) -> bool:
        raw, owner = class_lookup(m, self.cls, name)
        return raw is not MISSING and owner not in OWN_CLASSES

    def hash_key(self, m: Interpreter) -> Hashable:
        if self.has_own(m, "__hash__") or self.has_own(m, "__eq__"):
            raise Unsupported(f"hash of tensor subclass {self.cls.__name__}, which has its own")
        return super().hash_key(m)

    def as_number(self, m: Interpreter, cls: type) -> Variable:
        name = f"__{cls.__name__}__"
        if self.has_own(m, name):
            return m.operators.answer(self.method(m, name, [], {}), cls, name)
        return super().as_number(m, cls)

    def asked_to_read(self, m: Interpreter, name: str) -> Variable | None:
        reader = getattr(torch.Tensor, name, None)
        if not self.has_own(m, name) or not isinstance(reader, GetSetDescriptorType):
            return super().asked_to_read(m, name)
        return m.modes.answer(reader.__get__, [self], {})  # as `getattr` the class's own would be called

    def place_of(self, name: str) -> Source:
        if self.source is None:
            raise Unsupported(f"attribute {name!r} of unknown origin")
        return Applied(self.source, _torch.read_plainly, _torch.PLAINLY_READ.index(name))  # the class is not asked

    @property
    def is_leaf(self) -> bool:
        return bool(self.fake.is_leaf if self.value is None else self.real("is_leaf"))

    def real(self, name: str) -> Any:
        assert self.value is not None
        return _torch.read_plainly(self.value, _torch.PLAINLY_READ.index(name))

    def of_object(self, m: Interpreter, name: str, args: Args) -> Variable | None:
        if name == "__setattr__" and len(args) == 2:
            self._generic_set(m, attribute_name(m, args[0]), args[1])
            return Constant(None)
        if name == "__delattr__" and len(args) == 1:
            self._generic_delete(m, attribute_name(m, args[0]))
            return Constant(None)
        return None

    def attribute(self, m: Interpreter, name: str) -> Variable:
        raw, owner = class_lookup(m, self.cls, name)
        if name == "__torch_function__":
            return descriptor_get(m, raw, owner, self, self.cls, name)
        if type(raw) is MemberDescriptorType:
            return self._slot(m, raw, name)
        if raw is not MISSING and (is_data_descriptor(m, raw) or (owner in OWN_CLASSES and not self._hides(name))):
            return super().attribute(m, name)
        own = self._own(m, name)
        if own is not None:
            return own
        if raw is not MISSING:
            return descriptor_get(m, raw, owner, self, self.cls, name)
        fallback = class_lookup(m, self.cls, "__getattr__")[0]
        if fallback is not MISSING:
            return m.calls.call(m.builder.class_attribute(fallback), [self, Constant(name)], {})
        m.errors.throw(AttributeError, f"{self.cls.__name__!r} object has no attribute {name!r}")

    def _slot(self, m: Interpreter, raw: MemberDescriptorType, name: str) -> Variable:
        """What is in one of the slots that its class has."""
        if name in self.given:
            return self.given[name]
        if raw.__name__ != name or class_lookup(m, self.cls, "__getattr__")[0] is not MISSING:
            raise Unsupported(f"slot {name!r} of tensor subclass {self.cls.__name__}, in which nothing may be")
        if self.value is not None and self.source is not None:
            try:
                held = raw.__get__(self.value)
            except AttributeError:
                m.guards.add(self.source, GuardKind.NO_ATTR, name)
            else:
                return m.builder.wrap(held, Attr(self.source, name))
        m.errors.throw(AttributeError, f"{shown_holder(self.cls)!r} object has no attribute {name!r}")

    def _hides(self, name: str) -> bool:
        """Whether its own dictionary has what torch has as a method."""
        return name in self.given or (self.value is not None and name in vars(self.value))

    def _own(self, m: Interpreter, name: str) -> Variable | None:
        """What is in its own dictionary."""
        if name in self.given:
            return self.given[name]
        if self.value is None or self.source is None:
            return None
        held = vars(self.value)
        if name in held:
            return m.builder.wrap(held[name], Attr(self.source, name, via_dict=True))
        m.guards.add(Attr(self.source, "__dict__"), GuardKind.NO_KEY, name)
        return None

    def set_attribute(self, m: Interpreter, name: str, value: Variable) -> None:
        setter, owner = class_lookup(m, self.cls, "__setattr__")
        if owner in OWN_CLASSES:
            self._generic_set(m, name, value)
            return
        m.calls.call(descriptor_get(m, setter, owner, self, self.cls, "__setattr__"), [Constant(name), value], {})

    def _generic_set(self, m: Interpreter, name: str, value: Variable) -> None:
        """``object.__setattr__``."""
        raw, owner = class_lookup(m, self.cls, name)
        if raw is MISSING or type(raw) is MemberDescriptorType or not is_data_descriptor(m, raw):
            self.put(m, name, value)
        elif isinstance(raw, property) and type(raw) is property and raw.fset is not None and owner not in OWN_CLASSES:
            m.calls.call(m.builder.class_attribute(raw.fset), [self, value], {})
        elif name in autograd_state.SET and owner in OWN_CLASSES:
            autograd_state.set_by_torch(m, self, name, value)
        else:
            raise Unsupported(f"setting attribute {name!r} of tensor subclass {self.cls.__name__}")

    def replay(self, e: Emitter) -> None:
        for name, value in self.given.items():  # the class was asked already
            if name in autograd_state.SET:
                e.call_discarding(_torch.write_plainly, [self, Constant(name), value])
            else:
                e.call_discarding(object.__setattr__, [self, Constant(name), value])

    def delete_attribute(self, m: Interpreter, name: str) -> None:
        deleter, owner = class_lookup(m, self.cls, "__delattr__")
        if owner in OWN_CLASSES:
            self._generic_delete(m, name)
            return
        m.calls.call(descriptor_get(m, deleter, owner, self, self.cls, "__delattr__"), [Constant(name)], {})

    def _generic_delete(self, m: Interpreter, name: str) -> None:
        """``object.__delattr__``."""
        hidden = self.value is not None and name in vars(self.value)
        if name not in self.given or hidden or class_lookup(m, self.cls, name)[0] is not MISSING:
            raise Unsupported(f"deleting attribute {name!r} of tensor subclass {self.cls.__name__}")
        del self.given[name]


def _of_class(m: Interpreter, tensor: Variable, cls: type) -> Variable:
    """A tensor that was just made in the graph, as one of a class."""
    assert isinstance(tensor, Tensor)
    if cls is torch.Tensor:
        return tensor
    check_unseen_where_saved(m)
    made = m.effects.created(SubclassTensor(tensor.node, tensor.fake, cls))
    m.recorder.know(made)
    m.modes.meet()
    return made


def _class_of(m: Interpreter, given: Variable) -> type:
    cls = looked_up(m, given)
    if not isinstance(cls, type) or not issubclass(cls, torch.Tensor) or issubclass(cls, torch.nn.Parameter):
        raise Unsupported("a tensor subclass made of a parameter, or by what is no class of tensors")
    if cls is not torch.Tensor:
        check_followed(m, cls)
    return cls


def _alias(m: Interpreter, tensor: Tensor) -> Variable:
    with m.modes.silent():
        return m.recorder.record("call_function", torch.ops.aten.alias.default, [tensor], {})


@handles(torch.Tensor.as_subclass)
def _as_subclass(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    if len(args) + len(kwargs) != 2 or not kwargs.keys() <= {"cls"}:
        raise Unsupported("a tensor subclass made by as_subclass with these arguments")
    tensor = args[0].realize(m)
    if not isinstance(tensor, Tensor) or tensor.node is None:
        raise Unsupported("a tensor subclass made of what is no tensor of the graph")
    return _of_class(m, _alias(m, tensor), _class_of(m, args[1] if len(args) > 1 else kwargs["cls"]))


@handles(_torch.make_subclass)
def _make_subclass(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    given = dict(zip(("cls", "data", "require_grad"), args, strict=False)) | kwargs
    if not {"cls", "data"} <= given.keys() <= {"cls", "data", "require_grad"}:
        raise Unsupported("a tensor subclass made by _make_subclass with these arguments")
    tensor = given["data"].realize(m)
    if not isinstance(tensor, Tensor) or tensor.node is None:
        raise Unsupported("a tensor subclass made of what is no tensor of the graph")
    with m.modes.silent():
        apart = m.recorder.record("call_method", "detach", [tensor], {})
        made = _of_class(m, apart, _class_of(m, given["cls"]))
        if m.operators.truth(given.get("require_grad", Constant(False))):
            autograd_state.require_grad(m, made, True)
    return made


def new_tensor(m: Interpreter, cls: type, args: Args, kwargs: Kwargs) -> Variable:
    """What torch's own ``__new__`` makes for a class of the program's: of another tensor's memory, or of sizes or elements."""
    check_followed(m, cls)
    given = args[0].realize(m) if args else None
    if len(args) == 1 and not kwargs and isinstance(given, Tensor):
        return _of_class(m, _alias(m, given), cls)
    with m.modes.silent():
        made = m.calls.call(m.builder.known(torch.Tensor), args, kwargs).realize(m)
    return _of_class(m, made, cls)
