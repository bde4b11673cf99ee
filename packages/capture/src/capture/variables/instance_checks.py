"""What `isinstance` and `issubclass` answer: by a class's order, by the rules of its metaclass, and by those of `abc` and `typing`."""

from __future__ import annotations

import abc
import types
from collections.abc import Sized
from typing import Any

import torch

from capture.errors import Unsupported
from capture.trace_rules import module_of

from .base import Args, Interpreter, Kwargs, SymbolicRaise, Variable
from .constants import Constant, Known, looked_up
from .handlers import handles
from .lookups import C_METHODS, check_own_class, class_lookup, is_of_program
from .objects import Object
from .sequences import Tuple
from .tensors import Tensor

_PLAIN_INSTANCE = type.__dict__["__instancecheck__"]
_PLAIN_SUBCLASS = type.__dict__["__subclasscheck__"]
_ABSTRACT_INSTANCE = abc.ABCMeta.__dict__["__instancecheck__"]
_ABSTRACT_SUBCLASS = abc.ABCMeta.__dict__["__subclasscheck__"]


@handles(isinstance)
def _isinstance(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    value = args[0].realize(m)
    try:
        return Constant(any(_is_instance(m, value, c) for c in _classes(m, args[1])))
    except TypeError as error:  # of a class that refuses to be asked, as a TypedDict does
        m.errors.throw(TypeError, str(error))


def _classes(m: Interpreter, classes: Variable) -> list[type]:
    real = classes.realize(m)
    if isinstance(real, Tuple):
        return [c for x in real.items for c in _classes(m, x)]
    if isinstance(real, Known) and real.made_here:
        return [real.value]
    plain = m.builder.to_python(real) if m.builder.is_constant(real) else None
    if isinstance(plain, types.UnionType):
        return [type(None) if a is None else a for a in plain.__args__]
    if not isinstance(plain, type):
        raise Unsupported(f"isinstance with {real!r}")
    return [plain]


def _is_instance(m: Interpreter, value: Variable, cls: type) -> bool:
    own = value.python_type()
    m.guards.note_type(cls)
    if own is cls:
        return True
    check = class_lookup(m, type(cls), "__instancecheck__")[0]
    if cls is torch.Tensor and isinstance(value, Tensor):
        return True
    if isinstance(value, Tensor) and (check is _PLAIN_INSTANCE or issubclass(cls, torch.Tensor)):
        return _is_tensor_of(m, value, cls, check)
    if check is _PLAIN_INSTANCE:
        return _is_plain_subclass(m, own, cls) or _claims_to_be(m, value, cls)
    if issubclass(cls, torch.Tensor) and not is_of_program(check):
        return False
    if check is _ABSTRACT_INSTANCE:
        m.guards.code_of(check)
        claimed = _claimed_or_own(m, value)
        return _is_abstract_subclass(m, claimed, cls) or (claimed is not own and _is_abstract_subclass(m, own, cls))
    if getattr(cls, "_is_protocol", False) and isinstance(value, Object) and value.value is not None:
        if value.attrs:  # the real one does not have them yet
            raise Unsupported(f"isinstance with {cls.__name__}, a protocol, of an object that the frame changed")
        answer = isinstance(value.value, cls)
        label = f"isinstance({{}}, {cls.__name__}) is {answer}"
        m.guards.predicate(value, lambda real: isinstance(real, cls) is answer, label, cls)
        return answer
    if isinstance(check, types.FunctionType) and module_of(check) != "typing":
        return m.operators.truth(m.calls.call(m.builder.class_attribute(check), [m.builder.known(cls), value], {}))
    if m.classes.may_change(own) or m.classes.is_made(own):
        raise Unsupported(f"isinstance with {cls.__name__}, which asks by rules of its own")
    return _is_by_own_rules(m, value, cls)


def _is_tensor_of(m: Interpreter, value: Tensor, cls: type, check: Any) -> bool:
    if not is_of_program(check) and _is_plain_subclass(m, value.python_type(), cls):
        return True
    if isinstance(
        check, types.FunctionType
    ):  # torch's is for parameters and buffers, which others may say that they are
        return m.operators.truth(m.calls.call(m.builder.class_attribute(check), [m.builder.known(cls), value], {}))
    return _claims_to_be(m, value, cls)


def _is_by_own_rules(m: Interpreter, value: Variable, cls: type) -> bool:
    """Whether an object of a class that cannot change is an instance by rules of `typing`, which may ask what attributes it has."""
    if not m.builder.is_constant(value):
        try:
            return _is_abstract_subclass(m, value.python_type(), cls)
        except TypeError:
            raise Unsupported(f"isinstance with {cls.__name__}, which asks for attributes") from None
    _check_hook(m, cls)
    answer = isinstance(m.builder.to_python(value), cls)
    if not answer:
        m.classes.note_unregistered(value.python_type(), cls)
    return answer


def _is_plain_subclass(m: Interpreter, own: type, cls: type) -> bool:
    m.classes.note_order(own)
    return any(base is cls for base in own.__mro__)  # a metaclass may take classes for equal


def _claimed_class(m: Interpreter, value: Variable) -> type:
    """``value.__class__``, which a class's own ``__getattribute__`` is asked for as for any attribute; raises what it raises."""
    own = value.python_type()
    if not isinstance(class_lookup(m, own, "__getattribute__")[0], C_METHODS):
        found = value.attribute(m, "__class__").realize(m)
        if not isinstance(found, Known) or not isinstance(found.value, type):
            raise Unsupported(f"a {own.__name__} that claims {found!r} to be its class")
        return found.value
    check_own_class(m, own)
    return own


class _Classless:
    def __getattribute__(self, name: str) -> Any:
        raise AttributeError(name)


def _takes_its_own() -> bool:
    """Whether an abstract class asks the real class of an object that tells none, as it does from 3.14."""
    try:
        isinstance(_Classless(), Sized)
    except AttributeError:
        return False
    return True


_TAKES_ITS_OWN = _takes_its_own()


def _claimed_or_own(m: Interpreter, value: Variable) -> type:
    """The class that an abstract class is asked about."""
    try:
        return _claimed_class(m, value)
    except SymbolicRaise as raised:
        if not _TAKES_ITS_OWN or not issubclass(raised.exception.python_type(), AttributeError):
            raise
    return value.python_type()


@handles(_PLAIN_INSTANCE)
def _instancecheck(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    cls = args[0].realize(m) if len(args) == 2 and not kwargs else None
    if not isinstance(cls, Known) or not isinstance(cls.value, type):
        raise Unsupported("type.__instancecheck__ of what is no known class")
    value = args[1].realize(m)
    m.guards.note_type(cls.value)
    return Constant(_is_plain_subclass(m, value.python_type(), cls.value) or _claims_to_be(m, value, cls.value))


def _claims_to_be(m: Interpreter, value: Variable, cls: type) -> bool:
    try:
        claimed = _claimed_class(m, value)
    except SymbolicRaise as raised:
        if issubclass(raised.exception.python_type(), AttributeError):
            return False
        raise
    return claimed is not value.python_type() and _is_plain_subclass(m, claimed, cls)


def _is_abstract_subclass(m: Interpreter, own: type, cls: type) -> bool:
    """As ``abc`` has it. A class that is found to be one stays one; one that is not may be registered later."""
    m.classes.note_order(own)
    _check_hook(m, cls)
    answer = issubclass(own, cls)
    if not answer:
        m.classes.note_unregistered(own, cls)
    return answer


def _check_hook(m: Interpreter, cls: type) -> None:
    hook = class_lookup(m, cls, "__subclasshook__")[0]
    if is_of_program(getattr(hook, "__func__", None)):
        raise Unsupported(f"a __subclasshook__ of the program's, of {cls.__name__}")


@handles(issubclass)
def _issubclass(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    cls = looked_up(m, args[0])
    if not isinstance(cls, type):
        m.errors.throw(TypeError, "issubclass() arg 1 must be a class")
    try:
        return Constant(any(_is_subclass(m, cls, c) for c in _classes(m, args[1])))
    except TypeError as error:
        m.errors.throw(TypeError, str(error))


def _is_subclass(m: Interpreter, own: type, cls: type) -> bool:
    m.guards.note_type(cls)
    check = class_lookup(m, type(cls), "__subclasscheck__")[0]
    if check is _PLAIN_SUBCLASS:
        return _is_plain_subclass(m, own, cls)
    if isinstance(check, types.FunctionType) and check is not _ABSTRACT_SUBCLASS and module_of(check) != "typing":
        function = m.builder.class_attribute(check)
        return m.operators.truth(m.calls.call(function, [m.builder.known(cls), m.builder.known(own)], {}))
    return _is_abstract_subclass(m, own, cls)
