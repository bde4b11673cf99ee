"""``super()``, and methods written in C that are reached through it."""

from __future__ import annotations

import types
from collections.abc import Iterable

from capture.bytecode import build
from capture.errors import Unsupported

from .base import Args, Interpreter, Kwargs, Variable
from .constants import Known, looked_up
from .descriptors import descriptor_get
from .functions import Function
from .handlers import handles
from .lookups import C_METHODS, MISSING, is_among
from .objects import Object
from .reconstruction import Emitter
from .tensors import Tensor


class Super(Variable):
    """``super()``: look-up that starts after ``start`` in the MRO of the object's class."""

    def __init__(self, start: type, obj: Variable) -> None:
        self.start = start
        self.obj = obj

    def python_type(self) -> type:
        return super

    @property
    def through_class(self) -> bool:
        """Whether the object is a class that goes through its own MRO, and not a metaclass's, whose instance it is."""
        known = isinstance(self.obj, Known) and isinstance(self.obj.value, type)
        return known and is_among(self.start, self.obj.value.__mro__)  # type: ignore[attr-defined]

    def attribute(self, m: Interpreter, name: str) -> Variable:
        through_class = self.through_class
        cls = self.check(m, through_class)
        raw, owner = m.classes.entry_above(cls, self.start, name)
        if raw is MISSING:
            m.errors.throw(AttributeError, f"'super' object has no attribute {name!r}")
        if name == "__new__":
            raw = raw.__func__ if isinstance(raw, staticmethod) else raw
            return m.builder.class_attribute(raw) if isinstance(raw, types.FunctionType) else m.builder.known(raw)
        if isinstance(raw, C_METHODS):
            return m.builder.known(raw) if through_class else m.effects.created(SuperBuiltin(self.obj, owner, name))
        return descriptor_get(m, raw, owner, None if through_class else self.obj, cls, name)

    def check(self, m: Interpreter, through_class: bool) -> type:
        """The class whose MRO is looked through; the start must be of it, which Python asks when ``super()`` is made."""
        cls: type = self.obj.value if through_class else self.obj.python_type()  # type: ignore[attr-defined]
        m.classes.note_order(cls)
        if not is_among(self.start, cls.__mro__):
            raise Unsupported("super() of an unrelated class")
        return cls

    def set_attribute(self, m: Interpreter, name: str, value: Variable) -> None:
        raise Unsupported("setting an attribute of super()")

    def made_of(self) -> Iterable[Variable]:
        return (self.obj,)

    def reconstruct(self, e: Emitter) -> None:
        e.emit(build.push_callable(build.load_const(super)), build.load_const(self.start))
        e.load(self.obj)
        e.emit(build.call(2))


class SuperBuiltin(Variable):
    """A method written in C reached through ``super()``."""

    def __init__(self, obj: Variable, owner: type, name: str) -> None:
        self.obj = obj
        self.owner = owner
        self.name = name

    def python_type(self) -> type:
        return types.BuiltinMethodType

    def truth(self, m: Interpreter) -> bool:
        return True

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        if isinstance(self.obj, Object):
            return self.obj.builtin(m, self.owner, self.name, args, kwargs)
        if isinstance(self.obj, Known) and isinstance(self.obj.value, type) and issubclass(self.owner, type):
            return self.obj.builtin(m, self.name, args, kwargs)
        if isinstance(self.obj, Tensor) and self.name != "__init__":  # past what its class has by this name
            return m.calls.call(m.builder.known(vars(self.owner)[self.name]), [self.obj, *args], kwargs)
        if isinstance(self.obj, Function):
            raise Unsupported("super() of a function")
        return self.obj.method(m, self.name, args, kwargs)

    def made_of(self) -> Iterable[Variable]:
        return (self.obj,)

    def reconstruct(self, e: Emitter) -> None:
        e.emit(build.push_callable(build.load_const(getattr(self.owner, self.name).__get__)))
        e.load(self.obj)
        e.emit(build.call(1))


@handles(super)
def _super(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    if len(args) == 1:
        raise Unsupported("super() of a class alone")
    if args:
        start, obj = looked_up(m, args[0]), args[1].realize(m)
    else:
        frame = m.state.frame
        if not frame.code.co_argcount:
            m.errors.throw(RuntimeError, "super(): no arguments")
        name = frame.code.co_varnames[0]
        first = frame.cells[name].content if name in frame.cells else frame.local.get(name)
        if first is None:
            m.errors.throw(RuntimeError, "super(): arg[0] deleted")
        cell = frame.cells.get("__class__")
        if cell is None:
            m.errors.throw(RuntimeError, "super(): __class__ cell not found")
        if cell.content is None:
            m.errors.throw(RuntimeError, "super(): empty __class__ cell")
        start = looked_up(m, cell.content)
        obj = first.realize(m)
    made = Super(start, obj)
    made.check(m, made.through_class)
    return m.effects.created(made)
