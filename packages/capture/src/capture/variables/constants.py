"""Values known entirely while evaluating: literals (``Constant``) and real objects of fixed identity (``Known``)."""

from __future__ import annotations

import collections.abc
import operator
import sys
import types
import typing
import weakref
from collections.abc import Hashable, Iterable
from typing import Any

import torch

from capture._native import address
from capture.bytecode import build
from capture.errors import NotConstant, Unsupported
from capture.guards import GuardKind
from capture.labels import label_of, place_of, written
from capture.sources import Const, Local, Source
from symshapes import NUMBER_DTYPES

from .base import Args, Interpreter, Kwargs, SymbolicRaise, Variable
from .building import builds, builds_where
from .handlers import handles
from .lookups import own_entry
from .operator_methods import OPERATOR_METHODS, operator_method
from .reconstruction import Emitter

#: Integers of which the interpreter makes one object each.
KEPT_INTEGERS = range(-5, 257)
#: Immutable types whose values are guarded by equality and computed with for real.
CONSTANT_TYPES: frozenset[type] = frozenset(
    {
        type(None),
        bool,
        int,
        float,
        complex,
        str,
        bytes,
        type(Ellipsis),
        type(NotImplemented),
        torch.dtype,
        torch.device,
        torch.layout,
        torch.memory_format,
        types.CodeType,
    }
)

#: Of those, the ones with a single object per value, for which ``is`` means equality.
SINGLETON_TYPES: frozenset[type] = frozenset(
    {
        type(None),
        bool,
        type(Ellipsis),
        type(NotImplemented),
        torch.dtype,
        torch.layout,
        torch.memory_format,
    }
)


def is_one_constant(one: Any, other: Any) -> bool:
    """Whether two constants are one object, or equal ones of a kind of which there is one object each."""
    if one is other:
        return True
    return type(one) is type(other) and one == other and is_kept(one)


def is_kept(value: Any) -> bool:
    """Whether there is one object of a constant, whoever makes it."""
    return type(value) in SINGLETON_TYPES or (type(value) is int and value in KEPT_INTEGERS)


class Real(Variable):
    """A value that is known entirely: the real one."""

    value: Any

    def python_type(self) -> type:
        return type(self.value)

    def as_python(self, m: Interpreter) -> Any:
        return self.value

    def hash_key(self, m: Interpreter) -> Hashable:
        key: Hashable = self.value
        return key


class _Written(complex):
    """As a graph's code has to write one of which a part is a negative zero: the sum that `repr` gives loses the sign."""

    def __repr__(self) -> str:
        return f"complex({self.real!r}, {self.imag!r})"


def _loses_a_sign(value: Any) -> bool:
    return type(value) is complex and "-0.0" in (repr(value.real), repr(value.imag))


def _is_of_metaclass(value: Variable) -> bool:
    """Whether it is a class whose metaclass may say what it is called."""
    return isinstance(value, Known) and isinstance(value.value, type) and type(value.value) is not type


class Constant(Real):
    """A literal. Methods and attributes are computed for real; so are containers that hold only literals."""

    holds_nothing = True

    #: Whether it is the very object that stands in the program's code.
    in_code = False

    def __init__(self, value: Any, origin: Source | None = None) -> None:
        self.value = value
        #: Where it was read: that it is equal there does not make it the same object.
        self.origin = origin

    def truth(self, m: Interpreter) -> bool:
        if self.value is NotImplemented:  # which is refused, or warned about
            return bool(m.builder.fold(bool, [self.value]))
        return bool(self.value)

    def hash_key(self, m: Interpreter) -> Hashable:
        if self.value != self.value and self.origin is not None:  # a NaN is a key by its identity
            m.guards.add(self.origin, GuardKind.ID, self.value)
        return super().hash_key(m)

    def attribute(self, m: Interpreter, name: str) -> Variable:
        found = m.builder.fold(getattr, [self.value, name])
        if callable(found) and getattr(found, "__self__", found) is self.value:
            return BoundBuiltin(self, name)
        return m.builder.from_python(found)

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if type(self.value) is torch.device and name in ("__enter__", "__exit__"):
            return self._as_context(m, name)
        try:
            real_args = [m.builder.to_python(a) for a in args]
            real_kwargs = {k: m.builder.to_python(v) for k, v in kwargs.items()}
        except NotConstant:
            if name == "join" and len(args) == 1:
                return self.join(m, args[0])
            if name == "format" and type(self.value) is str:
                return Constant(m.operators.by_fields(self.value, args, kwargs))
            if name in OPERATOR_METHODS and len(args) == 1 and not kwargs:
                return operator_method(m, name, self, args[0].realize(m))
            raise Unsupported(f"{type(self.value).__name__}.{name} on a value that is not constant") from None
        found = m.builder.fold(getattr, [self.value, name])
        return m.builder.from_python(m.builder.fold(found, real_args, real_kwargs))

    def _as_context(self, m: Interpreter, name: str) -> Variable:
        """A device in a ``with`` statement, which does something."""
        if name == "__enter__":
            m.modes.answer(torch.device, [self], {})  # the mode makes one of it
            m.modes.enter_device(self.value)
            return self
        m.modes.leave()
        return Constant(None)

    def join(self, m: Interpreter, parts: Variable) -> Variable:
        """``self.join(parts)`` of a string, where not all parts were known as one value."""
        try:
            listed = m.iteration.elements_or(parts, "can only join an iterable")
            return Constant(m.builder.fold(self.value.join, [[m.builder.to_python(p) for p in listed]]))
        except NotConstant:
            raise Unsupported("str.join of values that are not constant") from None

    def binary(self, m: Interpreter, symbol: str, other: Variable) -> Variable | None:
        if symbol != "%" or type(self.value) is not str:
            return None
        if m.builder.is_constant(other) and not any(map(_is_of_metaclass, (other, *other.contents(m)))):
            return None
        return Constant(m.operators.percent(self.value, other))

    def length(self, m: Interpreter) -> Variable:
        return Constant(m.builder.fold(len, [self.value]))

    def iterate(self, m: Interpreter) -> Variable:
        values = m.builder.fold(list, [self.value])
        elements = m.builder.new_tuple([m.builder.from_python(v) for v in values])
        made: Variable = elements.iterate_of(m, self) if type(self.value) in (str, bytes) else elements.iterate(m)
        return made

    def item(self, m: Interpreter, key: Variable) -> Variable:
        try:
            real = m.builder.to_python(key)
        except NotConstant:
            raise Unsupported("subscript of a constant by a value that is not constant") from None
        return m.builder.from_python(m.builder.fold(lambda a, b: a[b], [self.value, real]))

    def contains(self, m: Interpreter, value: Variable) -> bool:
        try:
            return bool(m.builder.fold(lambda a, b: b in a, [self.value, m.builder.to_python(value)]))
        except NotConstant:
            raise Unsupported("membership test of a value that is not constant") from None

    def made_of(self) -> Iterable[Variable]:
        return ()

    def reconstruct(self, e: Emitter) -> None:
        if type(self.value) in _MADE_AGAIN and type(self.origin) is Local:
            e.load_source(self.origin)  # the very one that was handed in
        elif e.m.builder.is_made(self.value):
            self._make(e)
        elif not self.in_code and _is_lost_in_code(self.value):
            e.emit(build.push_callable(build.load_const(chr)), build.load_const(ord(self.value)), build.call(1))
        else:
            e.emit(build.load_const(self.value))

    def _make(self, e: Emitter) -> None:
        """Push a text that is no other object, of its two halves, or such a number; what is the same object here is one there, too."""
        key = address(self.value)
        name = e.temps.get(key)
        if name is not None:
            e.emit(build.load_fast(name))
            return
        e.temps[key] = name = e.temp()
        if type(self.value) is not str:
            e.emit(*(build.load_const(each) for each in (self.value, _NOTHING[type(self.value)])), build.add())
        elif len(self.value) > 1:
            e.emit(build.load_const(self.value[:1]), build.load_const(self.value[1:]), build.add())
        elif self.value.isdecimal() and self.value.isascii():  # of other characters there is one
            e.emit(build.call_function(build.load_const(str), build.load_const(int(self.value))))
        else:
            e.emit(build.load_const(self.value))
        e.emit(build.copy(1), build.store_fast(name))

    def as_argument(self, m: Interpreter) -> tuple[Any, Any]:
        return (_Written(self.value) if _loses_a_sign(self.value) else self.value), self.value

    def __repr__(self) -> str:
        return written(self.value)


#: Numbers that make another object of one like it, added to it.
_NOTHING: dict[type, Any] = {int: 0, float: -0.0}
#: What may be another object than one that is equal.
_MADE_AGAIN = (str, *_NOTHING)


def _is_lost_in_code(value: object) -> bool:
    """Whether a value is the one text of its character, which code does not keep: it takes names for one another, and has another here.

    Before 3.13 the one that computing gives, `"ab"[0]`, need not be the one that is written.
    """
    if type(value) is not str or len(value) != 1 or not (value == "_" or (value.isascii() and value.isalnum())):
        return False
    return value is chr(ord(value)) and sys.intern(value) is not value


def _written_type(cls: type) -> Any:
    """What stands for a class in a graph, whose source could not name the class itself."""
    for number, dtype in NUMBER_DTYPES.items():
        if cls is number:  # not looked up, for which a metaclass may have a hash of its own, or none
            return dtype
    if isinstance(cls, type(torch.FloatTensor)):
        return f"{cls.__module__}.{cls.__name__}"
    raise Unsupported(f"class {cls.__qualname__} as argument of a torch operation")


class Known(Real):
    """A real object whose identity is guarded or fixed: classes, modules, builtin functions, enum members."""

    #: Whether the frame made it: the value is then a prototype, which is no one else's to see.
    made_here = False

    def __init__(self, value: Any) -> None:
        self.value = value

    def truth(self, m: Interpreter) -> bool:
        cls = type(self.value)
        if hasattr(cls, "__bool__") or hasattr(cls, "__len__"):
            raise Unsupported(f"truth value of {self!r}")
        return True

    def attribute(self, m: Interpreter, name: str) -> Variable:
        raise Unsupported(f"attribute {name!r} of {self!r}")

    def builtin(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        """A method of ``type`` itself, of a class, past what its metaclass has."""
        raise Unsupported(f"type.{name} of {self!r}")

    def item(self, m: Interpreter, key: Variable) -> Variable:
        if type(self.value).__module__ != "typing":
            return super().item(m, key)
        try:
            real = m.builder.to_python(key)
        except NotConstant:
            raise Unsupported(f"subscript of {self!r}") from None
        if any(m.classes.is_made(type(each)) for each in (real if type(real) is tuple else (real,))):
            raise Unsupported(f"subscript of {self!r} by an object of a class that the frame made")
        return m.builder.known(m.builder.fold(operator.getitem, [self.value, real]))  # Optional[int]

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        if isinstance(self.value, typing.NewType) and len(args) == 1 and not kwargs:
            return args[0]
        return super().call(m, args, kwargs)

    def made_of(self) -> Iterable[Variable]:
        return ()

    def reconstruct(self, e: Emitter) -> None:
        e.emit(build.load_const(self.value))

    def as_argument(self, m: Interpreter) -> tuple[Any, Any]:
        if isinstance(self.value, type):
            return _written_type(self.value), self.value
        if type(self.value) in CONSTANT_TYPES:
            return self.value, self.value
        return super().as_argument(m)

    def __repr__(self) -> str:
        kind = type(self.value).__name__
        return f"<{kind} {label_of(self.value) or kind}>"


class Alias(Known):
    """A class with parameters, `list[int]`: a call makes an object of the class, which is told by what it was made."""

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name not in ("__origin__", "__args__", "__parameters__"):
            return super().attribute(m, name)
        found = None
        # Those of `typing` have a dictionary; others show that of the class that they are of.
        if type(self.value).__dictoffset__:
            found = own_entry(m, self.value, self.source or Const(self.value, label_of(self.value)), name)
        return found or m.builder.from_python(m.builder.fold(getattr, [self.value, name]))

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        origin = looked_up(m, self.attribute(m, "__origin__"))
        if not isinstance(origin, type) or not getattr(self.value, "_inst", True):
            raise Unsupported(f"call of {self!r}")
        made = m.calls.call(m.builder.known(origin), args, kwargs).realize(m)
        if made.takes_attributes:
            try:
                made.set_attribute(m, "__orig_class__", self)
            except SymbolicRaise as raised:
                if not issubclass(raised.exception.python_type(), AttributeError):
                    raise
        return made


class WeakReference(Known):
    """``weakref.ref``: a call gives its referent, which is read, and guarded, through the reference at each call."""

    def truth(self, m: Interpreter) -> bool:
        return True

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        if type(self.value).__call__ is not weakref.ref.__call__:
            raise Unsupported(f"call of a {type(self.value).__name__}")
        if args or kwargs:
            raise Unsupported("call of a weak reference with arguments")
        return m.builder.referent(self.value, self.source)


class BoundBuiltin(Variable):
    """A method, written in C, of a value that has its own variable family: ``[].append``."""

    def __init__(self, owner: Variable, name: str) -> None:
        self.owner = owner
        self.name = name

    def python_type(self) -> type:
        slot = isinstance(getattr(self.owner.python_type(), self.name, None), types.WrapperDescriptorType)
        return types.MethodWrapperType if slot else types.BuiltinMethodType

    def as_python(self, m: Interpreter) -> Any:
        if isinstance(self.owner, Real):
            return getattr(self.owner.value, self.name)
        raise NotConstant(self)

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        return self.owner.method(m, self.name, args, kwargs)

    def truth(self, m: Interpreter) -> bool:
        return True

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name == "__self__":
            return self.owner
        if name == "__name__":
            return Constant(self.name)
        return super().attribute(m, name)

    def made_of(self) -> Iterable[Variable]:
        return (self.owner,)

    def reconstruct(self, e: Emitter) -> None:
        e.load(self.owner)
        e.emit(build.load_attr(self.name))

    def __repr__(self) -> str:
        return f"<method {self.name} of {self.owner!r}>"


@builds(weakref.ref, subclasses=True)
def _build_reference(m: Interpreter, value: Any, source: Source | None) -> Variable:
    return m.builder.identified(WeakReference(value), source)


@builds(types.GenericAlias, type(collections.abc.Callable[[], None]))
@builds_where(lambda cls: place_of(cls)[0] == "typing" and place_of(cls)[1].endswith("Alias"))
def _build_alias(m: Interpreter, value: Any, source: Source | None) -> Variable:
    return m.builder.identified(Alias(value), source)


def refuse_of_alike(m: Interpreter, value: Any, source: Source | None) -> None:
    """End the graph at what each class of one statement has for itself, where it would be known as the object that it is."""
    if source is not None and m.classes.hangs_from_alike(source) and m.builder.place_of(value) is not None:
        raise Unsupported(f"a {type(value).__name__} of a class of which another one will do")


@builds(types.UnionType, property)
@builds_where(lambda cls: place_of(cls)[0] == "typing")
def _build_known(m: Interpreter, value: Any, source: Source | None) -> Variable:
    refuse_of_alike(m, value, source)
    return m.builder.identified(Known(value), source)


class InfoObject(Known):
    """``torch.finfo`` and ``torch.iinfo``: plain numbers by name."""

    def truth(self, m: Interpreter) -> bool:
        return True

    def attribute(self, m: Interpreter, name: str) -> Variable:
        return m.builder.from_python(m.builder.fold(getattr, [self.value, name]))


def _folded(*classes: type) -> None:
    """Immutable information objects that are computed for real."""
    for cls in classes:

        @handles(cls)
        def make(m: Interpreter, args: Args, kwargs: Kwargs, cls: Any = cls) -> Variable:
            real = [m.builder.to_python(a) for a in args]
            return InfoObject(m.builder.fold(cls, real, {k: m.builder.to_python(v) for k, v in kwargs.items()}))


@handles(torch.device, torch.dtype)
def _device(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    real = [m.builder.to_python(a) for a in args]
    told = m.modes.answer(torch.device, args, kwargs)
    if told is not None:
        return told
    return Constant(m.builder.fold(torch.device, real, {k: m.builder.to_python(v) for k, v in kwargs.items()}))


_folded(torch.finfo, torch.iinfo)


def looked_up(m: Interpreter, variable: Variable) -> Any:
    """The real value, of a class that the frame made its prototype: for looking something up there."""
    real = variable.realize(m)
    return real.value if isinstance(real, Known) else m.builder.to_python(real)
