"""Classes that the frame makes: one is looked up in as a prototype, made with it, and made anew by generated code at each call.

In: what the class is made by (``Making``), whose arguments are variables. Out: a ``MadeClass``. The prototype holds, for each value that is not known
for real, something that stands for its variable. It is never seen by the program, and taken apart when the evaluation ends.
"""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from capture.bytecode import build
from capture.errors import NotConstant, Unsupported
from capture.trace_rules import module_of

from .base import Args, Interpreter, Kwargs, SymbolicRaise, Variable
from .class_names import ClassNames
from .classes import Class
from .constants import Constant, Known
from .functions import VALUES, Cell, Function
from .lookups import MISSING, class_lookup, is_data_descriptor
from .mappings import Dict
from .objects import Object
from .placeholders import resolved
from .property_parts import PropertyPart
from .reconstruction import CannotReconstruct, Emitter
from .sequences import Tuple

#: What is asked of an object as it is put into a class, or looked up there.
_ASKED = ("__set_name__", "__get__", "__set__", "__delete__", "__isabstractmethod__")
#: Under which name a statement gives a class what makes its annotations, from 3.14.
ANNOTATE = "__annotate_func__"
#: Entries of a class that the interpreter, or what makes the class, reads: real ones, of prototypes.
_READ = frozenset({"__annotations__", "__slots__", "__match_args__", "__orig_bases__"})


class Stand:
    """What stands in a prototype for a value that is not known for real."""

    __slots__ = ("words",)

    def __init__(self, variable: Variable) -> None:
        self.words = repr(variable)


class Made(Variable):
    """What a call gave that keeps its arguments, reads nothing else, and changes nothing: a property, a class method, a field of a dataclass.

    ``real`` is the same of prototypes.
    """

    def __init__(self, m: Interpreter, function: Any, args: list[Variable], kwargs: Mapping[str, Variable]) -> None:
        self.function = function
        self.args = args
        self.kwargs = dict(kwargs)
        real = [prototype(m, each) for each in args]
        self.real = m.builder.fold(function, real, {k: prototype(m, v) for k, v in kwargs.items()})
        m.builder.stands_for(self.real, self)

    def python_type(self) -> type:
        return type(self.real)

    def truth(self, m: Interpreter) -> bool:
        return True

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name in _MAKES_ANOTHER.get(type(self.real), ()):
            return Remaking(self, _MAKES_ANOTHER[type(self.real)].index(name))
        if name in ("__func__", "__wrapped__") and isinstance(self.real, (staticmethod, classmethod)):
            return self.args[0]
        raise Unsupported(f"attribute {name!r} of a {type(self.real).__name__} made in the frame")

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        if isinstance(self.real, staticmethod):
            return m.calls.call(self.args[0], args, kwargs)
        return super().call(m, args, kwargs)

    def made_of(self) -> Iterable[Variable]:
        return [*self.args, *self.kwargs.values()]

    def reconstruct(self, e: Emitter) -> None:
        e.emit(build.push_callable(build.load_const(self.function)))
        e.load_many([*self.args, *self.kwargs.values()])
        e.emit(build.call(len(self.args) + len(self.kwargs), tuple(self.kwargs)))

    def __repr__(self) -> str:
        return f"<{type(self.real).__name__} made in the frame>"


#: Methods that give another one, with a part replaced: by their places among the arguments.
_MAKES_ANOTHER: dict[type, tuple[str, ...]] = {property: ("getter", "setter", "deleter")}


class Remaking(Variable):
    """A method that gives another of its owner, with the argument at ``place`` replaced: ``setter`` of a property."""

    def __init__(self, owner: Made, place: int) -> None:
        self.owner = owner
        self.place = place

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        owner = self.owner
        if owner.kwargs or len(args) != 1 or kwargs:
            raise Unsupported("a property with a documentation of its own, made anew")
        parts = [*owner.args, *[Constant(None)] * (self.place + 1 - len(owner.args))]
        parts[self.place] = args[0].realize(m)
        return m.effects.created(Made(m, owner.function, parts, {}))

    def made_of(self) -> Iterable[Variable]:
        return (self.owner,)

    def reconstruct(self, e: Emitter) -> None:
        e.load(self.owner)
        e.emit(build.load_attr(_MAKES_ANOTHER[type(self.owner.real)][self.place]))


def prototype(m: Interpreter, variable: Variable) -> Any:
    """What a class's prototype has for a value: the value, if it is known, or what stands for the variable."""
    value = variable.realize(m)
    if isinstance(value, (Constant, Known)):
        return value.value
    if isinstance(value, Made):
        return value.real
    if isinstance(value, Function):
        return _prototype_of_function(m, value)
    if isinstance(value, Cell):
        return types.CellType()
    if isinstance(value, Tuple) and m.builder.is_constant(value):
        return m.builder.to_python(value)
    if isinstance(value, Object) and isinstance(value.payload, PropertyPart):
        return _prototype_of_property(m, value, value.payload)
    if isinstance(value, Object) and any(class_lookup(m, value.cls, name)[0] is not MISSING for name in _ASKED):
        raise Unsupported(f"a class with a {value.cls.__name__}, which is asked for what it comes to")
    stand = Stand(value)
    m.builder.stands_for(stand, value)
    return stand


def annotating(m: Interpreter, make: Callable[[Interpreter], Variable]) -> Callable[[int], dict[str, Any]]:
    """For a prototype, what gives annotations that are known, as the library asks for them. Raises ``Unsupported`` where they are not."""
    try:
        known = _whole(m, make(m))
    except SymbolicRaise:  # which the library handles in ways of its own
        raise Unsupported("annotations that cannot be made") from None
    except NotConstant:
        raise Unsupported("annotations that are not constant") from None
    return lambda format, /: dict(known)


def _prototype_of_property(m: Interpreter, value: Object, part: PropertyPart) -> property:
    """A plain property in the place of one of a subclass that acts as that."""
    if any(class_lookup(m, value.cls, name)[0] is not vars(property).get(name, MISSING) for name in _ASKED):
        raise Unsupported(f"a class with a {value.cls.__name__}, which is asked for what it comes to")
    if part.prototype is None:
        part.prototype = property(*[prototype(m, each) for each in part.functions])
        m.builder.stands_for(part.prototype, value)
    return part.prototype


def _prototype_of_function(m: Interpreter, function: Function) -> types.FunctionType:
    if function.real is not None:
        if function.attrs:
            raise Unsupported("a class with a function that was given attributes")
        m.guards.note_identity(function, function.real)
        return function.real
    if function.unseen:
        raise Unsupported("a class with a function that was given what is in another object")
    if function.prototype is None:
        cells = tuple(types.CellType() for _ in function.closure)
        made = types.FunctionType(function.code, function.globals, function.code.co_name, None, cells)
        for name, value in function.attrs.items():
            stands = prototype(m, value)
            if name == "__isabstractmethod__" and isinstance(stands, Stand):
                raise Unsupported("a class with a function whose __isabstractmethod__ is asked whether it is true")
            made.__dict__[name] = stands
        for name, value in function.described.items():
            if m.builder.is_constant(value):
                setattr(made, name, m.builder.to_python(value))
        function.prototype = made
        m.builder.stands_for(made, function)
    return function.prototype


def prototypes(m: Interpreter, entries: Mapping[str, Variable]) -> dict[str, Any]:
    """The same of what a class is made with."""
    return {name: _whole(m, v) if name in _READ else prototype(m, v) for name, v in entries.items()}


def _whole(m: Interpreter, variable: Variable) -> Any:
    """The same of what is read: with all that it holds."""
    value = variable.realize(m)
    if isinstance(value, Dict):
        return {m.builder.to_python(k): _whole(m, v) for k, v in value.entries.values()}
    if isinstance(value, Tuple):
        return tuple(_whole(m, v) for v in value.items)
    if isinstance(value, (Constant, Known)):
        return value.value
    return m.builder.to_python(value)


class MadeClass(Class):
    """A class made in the frame. ``value`` is its prototype; ``entries`` are what its statement put into it, and what was put there later.

    ``make`` gives the class, of the real values of ``args``; then each of ``steps`` is called with it.
    """

    made_here = True

    def __init__(
        self,
        value: type,
        make: Callable[..., type],
        args: list[Any],
        entries: dict[str, Variable],
        given: dict[str, Any],
    ) -> None:
        super().__init__(value)
        self.make = make
        self.args = args
        self.entries = dict(entries)
        self._annotations: Variable | None = None
        #: Whether the program has them: the class has this very dictionary then.
        self._told_annotations = False
        #: What the prototype has for the entries.
        self._given = dict(given)
        self._compare()
        #: What makes the annotations.
        self._annotate = self.entries.get(ANNOTATE)
        self._made_with = frozenset(value.__dict__)
        #: What was set since, in the order in which names came; and names that the class was made with and lost then.
        self.later: dict[str, Variable] = {}
        self._lost: list[str] = []
        self.steps: list[Callable[[type], object]] = []
        self._begun = False
        #: Cells that generated code fills after it made the class.
        self._empty: list[Cell] = []

    def as_python(self, m: Interpreter) -> Any:
        raise NotConstant(self)  # its prototype is not to be computed with: what comes out might keep it

    def hash_key(self, m: Interpreter) -> Any:
        return m.identity.key(self)

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name == "__annotations__" and name in self.entries:
            return self.entries[name]
        if name == "__annotations__" and self._annotate is not None:
            self._told_annotations = True
            return self.annotations(m)
        if name == "__doc__" and self.steps:
            raise Unsupported("the documentation that a class was given")
        return super().attribute(m, name)

    def annotations(self, m: Interpreter) -> Variable:
        """Those that the statement has, made as they are asked for (from 3.14)."""
        if self._annotations is None:
            assert self._annotate is not None
            self._annotations = m.calls.call(self._annotate, [Constant(VALUES)], {}).realize(m)
        return self._annotations

    def item(self, m: Interpreter, key: Variable) -> Variable:
        cls = self.value
        raw, _ = class_lookup(m, cls, "__class_getitem__")
        function = raw.__func__ if isinstance(raw, classmethod) else None
        by_program = isinstance(function, types.FunctionType) and module_of(function) != typing.__name__
        if not by_program and self.special(m, "__getitem__") is None and not issubclass(cls, enum.Enum):
            raise Unsupported(f"subscript of class {cls.__name__}, which the frame made")
        return super().item(m, key)

    def set_attribute(self, m: Interpreter, name: str, value: Variable) -> None:
        metaclass = type(self.value)
        own = class_lookup(m, metaclass, "__setattr__")[1] is type and class_lookup(m, metaclass, name)[0] is MISSING
        if not own or self.steps:
            raise Unsupported(f"setting attribute {name!r} of class {self.value.__name__}, which the frame made")
        self._change(m, name, value)

    def delete_attribute(self, m: Interpreter, name: str) -> None:
        metaclass = type(self.value)
        of_metaclass = class_lookup(m, metaclass, name)[0]
        own = class_lookup(m, metaclass, "__delattr__")[1] is type
        if name not in self.entries or not own or self.steps or is_data_descriptor(m, of_metaclass):
            raise Unsupported(f"deleting attribute {name!r} of class {self.value.__name__}, which the frame made")
        self._change(m, name, None)

    def _change(self, m: Interpreter, name: str, value: Variable | None) -> None:
        if value is None:
            del self.entries[name]
            type.__delattr__(self.value, name)
        else:
            type.__setattr__(self.value, name, prototype(m, value))
            self.entries[name] = value.realize(m)
        self._given = dict(self.value.__dict__)
        if value is not None:
            self.later[name] = self.entries[name]
        else:
            self.later.pop(name, None)
            if name in self._made_with and name not in self._lost:
                self._lost.append(name)
        m.classes.changed(self.value)
        m.effects.mutated(self)

    def _compare(self) -> None:
        """Entries are those that are in the class as they were given: what makes a class may have others for them."""
        now = self.value.__dict__
        for name in [k for k in self.entries if k not in now or now[k] is not self._given.get(k)]:
            del self.entries[name]

    def pass_on(self, m: Interpreter, function: Callable[[type], object]) -> None:
        """Have a function called that changes nothing but the class."""
        m.builder.fold(function, [self.value])
        self.steps.append(function)
        self._compare()
        m.classes.changed(self.value)
        m.effects.mutated(self)

    # Reconstruction

    def made_of(self) -> Iterable[Variable]:
        return [*_variables(self.args), *self.later.values()]

    def reconstruct(self, e: Emitter) -> None:
        self.reconstruct_empty(e)
        name = e.temps[id(self)] = e.temp()
        e.emit(build.copy(1), build.store_fast(name))
        self.fill(e)

    def reconstruct_empty(self, e: Emitter) -> None:
        """The class, while the cells of its functions are empty yet: they may lead to it."""
        if self._begun:
            raise CannotReconstruct(self, f"{self!r} is made of what contains it")
        if self._told_annotations:
            raise CannotReconstruct(self, f"{self!r}, whose annotations were made")
        self._begun = True
        for cell in _own_cells(_variables(self.args)):
            if id(cell) not in e.temps and cell.content is not None:
                cell.reconstruct_empty(e)
                e.temps[id(cell)] = e.temp()
                e.emit(build.store_fast(e.temps[id(cell)]))
                names = resolved(cell.content)
                if not (isinstance(names, ClassNames) and names.is_of(self)):  # which making the class puts there
                    self._empty.append(cell)
        e.emit(build.push_callable(build.load_const(self.make)))
        for each in self.args:
            _load(e, each)
        e.emit(build.call(len(self.args)))
        if self.steps and not self._changed:
            name = e.temp()
            e.emit(build.store_fast(name))
            self._take_steps(e, name)
            e.emit(build.load_fast(name))

    @property
    def _changed(self) -> bool:
        """Whether anything was set or deleted; steps come after that."""
        return bool(self.later or self._lost)

    def _take_steps(self, e: Emitter, name: str) -> None:
        for function in self.steps:
            e.emit(build.call_function(build.load_const(function), build.load_fast(name)), build.pop())

    def fill(self, e: Emitter) -> None:
        """Fill the cells, and do what was done to the class later."""
        name = e.temps[id(self)]
        for cell in self._empty:
            assert cell.content is not None
            e.load(cell.content)
            e.emit(build.load_fast(e.temps[id(cell)]), build.store_attr("cell_contents"))
        for attribute in self._lost:
            e.emit(build.push_callable(build.load_const(type.__delattr__)))
            e.emit(build.load_fast(name), build.load_const(attribute), build.call(2), build.pop())
        for attribute, content in self.later.items():
            e.emit(build.push_callable(build.load_const(type.__setattr__)))
            e.emit(build.load_fast(name), build.load_const(attribute))
            e.load(content)
            e.emit(build.call(3), build.pop())
        if self._changed:
            self._take_steps(e, name)


def _variables(args: Iterable[Any]) -> Iterator[Variable]:
    """Those among arguments, which may be lists and dictionaries of them."""
    for each in args:
        if isinstance(each, Variable):
            yield resolved(each)
        elif isinstance(each, list):
            yield from map(resolved, each)
        else:
            yield from map(resolved, each.values())


def _own_cells(values: Iterable[Variable]) -> Iterator[Cell]:
    """The cells that functions among these hold, and that generated code makes."""
    for value in values:
        if isinstance(value, Cell):
            yield value
        elif isinstance(value, Made):
            yield from _own_cells(map(resolved, value.made_of()))
        elif isinstance(value, Function) and value.real is None:
            yield from (cell for cell in value.closure if cell.name is None and cell.source is None)


def _load(e: Emitter, arg: Any) -> None:
    """Push an argument: a variable, a tuple of them, or a dictionary with names for keys."""
    if isinstance(arg, Variable):
        e.load(arg)
    elif isinstance(arg, list):
        e.emit(build.build_tuple(e.load_many(arg)))
    else:
        for name, value in arg.items():
            e.emit(build.load_const(name))
            e.load(value)
        e.emit(build.build_map(len(arg)))


def new_class(
    m: Interpreter,
    make: Callable[..., type],
    args: list[Any],
    real: list[Any],
    entries: dict[str, Variable],
    given: dict[str, Any],
) -> MadeClass:
    """The class that ``make`` makes of ``args``, and its prototype of ``real``; ``given`` are the latter's for the entries."""
    made: MadeClass = m.effects.created(MadeClass(m.builder.fold(make, real), make, args, entries, given))
    cell = entries.get("__classcell__")
    if cell is not None:
        assert isinstance(cell, Cell)
        cell.set(m, made)
    names = entries.get("__classdictcell__")
    if names is not None:
        assert isinstance(names, Cell) and isinstance(names.content, ClassNames)
        names.content.owned_by(made, made.value, made.entries)
    m.classes.add_made(made)
    m.builder.stands_for(made.value, made)
    return made
