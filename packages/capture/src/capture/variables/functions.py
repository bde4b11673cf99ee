"""Python functions, their closures and cells, and bound methods: calls are evaluated inside the caller's graph."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Hashable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, NoReturn

from capture import _native
from capture.bytecode import Instruction, build
from capture.errors import NotConstant, Unsupported
from capture.guards import GuardKind
from capture.sources import Attr, CellContent, Closure, Const, Default, Item, KwDefault, Local, Source
from capture.trace_rules import is_library_line

from .base import Args, Interpreter, Kwargs, Variable
from .binding import raise_wrong_arguments
from .building import builds, known_part, part
from .class_names import ClassNames
from .constants import BoundBuiltin, Constant
from .handlers import handles
from .lookups import check_as_found, own_entry
from .made_annotations import have_annotations
from .placeholders import Lazy, resolved
from .reconstruction import CannotReconstruct, Emitter

#: Of code that takes any number of arguments.
_VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS

#: In which form annotations are made that are read as an attribute: `annotationlib.Format.VALUE`.
VALUES = 1

#: What a function keeps beside its dictionary.
_DESCRIBED = frozenset(
    name
    for cls in types.FunctionType.__mro__
    for name, raw in vars(cls).items()
    if isinstance(raw, (types.GetSetDescriptorType, types.MemberDescriptorType))
)


class Cell(Variable):
    """A closure cell; ``content`` is None while unbound. ``name`` is set for cells of the root frame."""

    def __init__(self, content: Variable | None = None, name: str | None = None) -> None:
        self.content = content
        self.name = name

    def python_type(self) -> type:
        return types.CellType

    def read(self, m: Interpreter) -> Variable | None:
        """What it holds; that it holds something is guarded even where what that is never counts."""
        if self.content is not None:
            m.guards.reach_content(self.content)
            if m.effects.later.concerned:
                self._read_later(m, self.content)
        return self.content

    def _read_later(self, m: Interpreter, content: Variable) -> None:
        what = "a variable of a function around it"
        if self.source is None or m.effects.later.twice:
            m.effects.later.relies(self)
        if self.source is None:
            m.effects.later.kept(m, content, what)
        elif not m.effects.later.active:
            names = (name for name, cell in m.state.frame.cells.items() if cell is self)
            m.effects.later.of_cell_twice(m, next(names, ""), content)
        elif not is_library_line(m.state.frame.code.co_filename):  # whose cells, of its decorators, nobody else knows
            m.effects.later.of_cell(m, self, content)

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name == "cell_contents":
            content = self.read(m)
            if content is None:
                m.errors.throw(ValueError, "Cell is empty")
            return content
        return super().attribute(m, name)

    def set(self, m: Interpreter, value: Variable | None) -> None:
        """Fill it, or empty it with None."""
        self.content = value
        m.effects.mutated(self)

    def made_of(self) -> Iterable[Variable]:
        return () if self.content is None else (self.content,)

    def reconstruct(self, e: Emitter) -> None:
        e.call(types.CellType, [] if self.content is None else [self.content])

    def reconstruct_empty(self, e: Emitter) -> None:
        e.call(types.CellType, [])

    def fill(self, e: Emitter) -> None:
        assert self.content is not None
        names = resolved(self.content)
        if isinstance(names, ClassNames):
            names.fill_cell(e)
            return
        e.load(self.content)
        e.emit(build.load_fast(e.temps[id(self)]), build.store_attr("cell_contents"))

    def written(self) -> Iterable[Variable]:
        return () if self.content is None else (self.content,)

    def replay(self, e: Emitter) -> None:
        if self.name is not None:
            if self.content is None:
                # It may be empty already: the program filled it and deleted that, which need not be done over.
                e.load(Constant(None))
                e.emit(build.store_deref(self.name), [Instruction("DELETE_DEREF", argval=self.name)])
                return
            e.load(self.content)
            e.emit(build.store_deref(self.name))
            return
        if self.content is None:
            e.call_discarding(delattr, [self, Constant("cell_contents")])
            return
        e.load(self.content)
        e.load(self)
        e.emit(build.store_attr("cell_contents"))


class Namespace(MutableMapping[str, Variable]):
    """The attributes of a function whose dictionary the program has seen: they are what lies in that."""

    def __init__(self, whole: Any) -> None:
        self.whole = whole

    def __getitem__(self, name: str) -> Variable:
        found: Variable = self.whole.entries[name][1]
        return found

    def __setitem__(self, name: str, value: Variable) -> None:
        self.whole.entries[name] = (Constant(name), value)

    def __delitem__(self, name: str) -> None:
        del self.whole.entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.whole.entries)

    def __len__(self) -> int:
        return len(self.whole.entries)


class Function(Variable):
    """A Python function: ``real`` if it exists outside the frame, else made by MAKE_FUNCTION in it."""

    dies_backwards = True  # its cells, at least

    def __init__(
        self,
        code: types.CodeType,
        module_globals: dict[str, Any],
        name: str,
        defaults: list[Variable],
        kwdefaults: dict[str, Variable],
        closure: list[Cell],
        real: types.FunctionType | None = None,
    ) -> None:
        self.code = code
        self.globals = module_globals
        self.name = name
        self.defaults = defaults
        self.kwdefaults = kwdefaults
        self.closure = closure
        self.real = real
        self.attrs: MutableMapping[str, Variable] = {}
        #: What the frame set that a function keeps beside its dictionary: its name, its documentation, ...
        self.described: dict[str, Variable] = {}
        #: Whether it was given what lies in another object, which was not looked at.
        self.unseen = False
        #: What stands for one made in the frame in the prototype of a class.
        self.prototype: types.FunctionType | None = None
        self.annotations: Variable | None = None
        #: What makes them when they are asked for.
        self.annotate: Variable | None = None
        #: Where its parts are read from; None for one made in the frame.
        self.base: Source | None = None
        #: Whether it is known to be evaluated whatever it is called with, where no mode watches.
        self.is_plain = False

    def python_type(self) -> type:
        return types.FunctionType

    def as_python(self, m: Interpreter) -> Any:
        if self.real is None or self.attrs or self.described:
            raise NotConstant(self)
        check_as_found(m, self.real.__dict__, self.real.__kwdefaults__, _native.annotations_held(self.real))
        m.guards.note_identity(self, self.real)
        return self.real

    def held(self, m: Interpreter, name: str) -> Variable:
        """What a variable of the enclosing function is."""
        content = self.closure[self.code.co_freevars.index(name)].read(m)
        if content is None:
            m.errors.throw(NameError, f"cannot access free variable {name!r} where it is not associated with a value")
        return content

    def hash_key(self, m: Interpreter) -> Hashable:
        if self.real is None:
            return m.identity.key(self)
        m.guards.note_identity(self, self.real)
        return self.real

    def truth(self, m: Interpreter) -> bool:
        return True

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        return m.calls.call_function(self, args, kwargs)

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name in self.described:
            return self.described[name]
        if name in self.attrs and name not in _DESCRIBED:
            return self.attrs[name]
        if name == "__code__":
            m.guards.note_code(self)
            return Constant(self.code)
        if name == "__class__":
            return m.builder.known(types.FunctionType)
        if name == "__defaults__":
            m.guards.note_defaults(self)
            return m.builder.new_tuple(list(self.defaults)) if self.defaults else Constant(None)
        if name in ("__call__", "__get__"):
            return BoundBuiltin(self, name)
        if name == "__closure__" and self.real is None:
            return m.builder.new_tuple(list(self.closure)) if self.closure else Constant(None)
        if name == "__kwdefaults__" and self.real is None:
            return m.builder.new_dict(self.kwdefaults) if self.kwdefaults else Constant(None)
        if self.real is not None and self.base is not None:
            return self.real_attribute(m, self.real, self.base, name)
        if name in ("__name__", "__qualname__"):
            return Constant(self.code.co_name if name == "__name__" else self.code.co_qualname)
        if name == "__module__":
            return Constant(self.globals.get("__name__"))
        if name == "__doc__":
            return Constant(_documentation(self.code))
        if self.unseen:
            raise Unsupported(f"attribute {name!r} of a function that was given what is in another object")
        if name == "__dict__":
            if not isinstance(self.attrs, Namespace):
                self.attrs = Namespace(m.builder.new_dict(dict(self.attrs)))
            return self.attrs.whole
        if name == "__annotations__":
            if self.annotations is None:
                annotate = self.annotate or Constant(None)
                found = None if m.builder.is_none(annotate) else m.calls.call(annotate, [Constant(VALUES)], {})
                self.annotations = m.builder.new_dict({}) if found is None else found.realize(m)
            return self.annotations
        if name == "__annotate__" and name in vars(types.FunctionType):
            return self.annotate or Constant(None)
        if hasattr(types.FunctionType, name):
            raise Unsupported(f"attribute {name!r} of a function")
        m.errors.throw(AttributeError, f"'function' object has no attribute {name!r}")

    def real_attribute(self, m: Interpreter, real: types.FunctionType, base: Source, name: str) -> Variable:
        """What a function from outside the frame has under a name."""
        if name in vars(types.FunctionType) or hasattr(types.FunctionType, name):
            if name == "__annotations__":
                have_annotations(m, real)
            value = m.builder.fold(getattr, [real, name])
            if name == "__annotate__":
                return m.builder.wrap(value, Attr(base, name))
            return BoundBuiltin(self, name) if callable(value) else m.builder.wrap(value, Attr(base, name))
        found = own_entry(m, real, base, name)
        if found is not None:
            return found
        m.errors.throw(AttributeError, f"'function' object has no attribute {name!r}")

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name == "__call__":
            return self.call(m, args, kwargs)
        if name == "__get__":
            owner = args[0].realize(m)
            return self if m.builder.is_none(owner) else m.effects.created(Method(self, owner))
        return super().method(m, name, args, kwargs)

    def set_attribute(self, m: Interpreter, name: str, value: Variable) -> None:
        if self.real is not None or name in ("__class__", "__code__", "__defaults__", "__dict__", "__kwdefaults__"):
            raise Unsupported(f"setting attribute {name!r} of a function")
        if name == "__annotate__" and name in _DESCRIBED:
            self._annotate_with(m, value.realize(m))
        elif name in _DESCRIBED:
            self.describe(m, name, value)
        else:
            self.attrs[name] = value
        m.effects.activity += 1

    def describe(self, m: Interpreter, name: str, value: Variable) -> None:
        """Set what is no entry of its dictionary, where a function takes a value of that kind."""
        kind = value.realize(m).python_type()
        alike: object = next((base() for base in (str, dict, tuple) if issubclass(kind, base)), object())
        if kind is type(None):
            alike = None
        function = types.FunctionType(self.code, {}, closure=(types.CellType(),) * len(self.closure) or None)
        m.builder.fold(setattr, [function, name, alike])
        if getattr(function, name) is not alike:
            raise Unsupported(f"setting attribute {name!r} of a function to this")
        self.described[name] = value
        if name == "__annotations__" and "__annotate__" in _DESCRIBED:  # with which they are made no more
            self.annotate = self.annotations = None

    def _annotate_with(self, m: Interpreter, value: Variable) -> None:
        """Set what makes annotations; those that are there stay if nothing is to make any."""
        if m.builder.is_none(value):
            self.annotate = None
            return
        if not isinstance(value, Function):
            raise Unsupported(f"annotations made by {value!r}")
        self.annotate, self.annotations = value, None
        self.described.pop("__annotations__", None)

    def refuse(self, m: Interpreter, args: Args, kwargs: Kwargs) -> NoReturn:
        """A call with arguments that it does not take."""
        m.guards.note_defaults(self)
        name = self.attribute(m, "__qualname__").realize(m)
        raise_wrong_arguments(m, self, m.builder.to_python(name), args, kwargs)

    def bind(self, m: Interpreter, args: Args, kwargs: Kwargs) -> dict[str, Variable]:
        """Arguments by parameter name, with Python's errors."""
        code = self.code
        count, only = code.co_argcount, code.co_kwonlyargcount
        names = code.co_varnames[:count]
        if not kwargs and not only and len(args) == count and not code.co_flags & _VARIADIC:
            return dict(zip(names, args, strict=True))
        keyword_only = code.co_varnames[count : count + only]
        bound: dict[str, Variable] = dict(zip(names, args, strict=False))
        at = count + only
        if code.co_flags & inspect.CO_VARARGS:
            bound[code.co_varnames[at]] = m.builder.new_tuple(list(args[count:]))
            at += 1
        elif len(args) > count:
            self.refuse(m, args, kwargs)
        rest: dict[str, Variable] = {}
        positional_only = names[: code.co_posonlyargcount]
        takes_rest = code.co_flags & inspect.CO_VARKEYWORDS
        for name, value in kwargs.items():
            if (name in names and name not in positional_only) or name in keyword_only:
                if name in bound:
                    self.refuse(m, args, kwargs)
                bound[name] = value
            elif takes_rest:
                rest[name] = value
            else:
                self.refuse(m, args, kwargs)
        if takes_rest:
            bound[code.co_varnames[at]] = m.builder.new_dict(dict(rest))
        if len(bound) < count + only:
            m.guards.note_defaults(self)
            if only and self.real is not None:
                check_as_found(m, self.real.__kwdefaults__)
        first_default = count - len(self.defaults)
        for i, name in enumerate(names):
            if name not in bound:
                if i < first_default:
                    self.refuse(m, args, kwargs)
                bound[name] = self.defaults[i - first_default]
        for name in keyword_only:
            if name not in bound:
                if name not in self.kwdefaults:
                    self.refuse(m, args, kwargs)
                bound[name] = self.kwdefaults[name]
        return bound

    def made_of(self) -> Iterable[Variable]:
        if self.unseen:
            raise CannotReconstruct(self, "a function that was given what is in another object")
        extra = [each for each in (self.annotations, self.annotate) if each is not None]
        return [
            *self.defaults,
            *self.kwdefaults.values(),
            *self.closure,
            *self.attrs.values(),
            *self.described.values(),
            *extra,
        ]

    def reconstruct(self, e: Emitter) -> None:
        if self.real is not None:
            e.emit(build.load_const(self.real))
            return
        e.emit(build.push_callable(build.load_const(make_function)))
        e.emit(build.load_const(self.code))
        e.load_globals(self.globals)
        e.emit(build.build_tuple(e.load_many(self.defaults)))
        _load_named(e, self.kwdefaults)
        e.emit(build.build_tuple(e.load_many(self.closure)))
        _load_named(e, self.attrs)
        _load_named(e, self.described)
        e.load(self.annotate or Constant(None))
        e.load(self.annotations or Constant(None))
        e.emit(build.call(9))

    def __repr__(self) -> str:
        return f"<function {self.name}>"


def _documentation(code: types.CodeType) -> str | None:
    """What a function made of this code has for documentation."""
    has = sys.version_info < (3, 14) or code.co_flags & inspect.CO_HAS_DOCSTRING  # type: ignore[attr-defined,unused-ignore]
    first = code.co_consts[0] if has and code.co_consts else None
    return first if isinstance(first, str) else None


def _load_named(e: Emitter, values: Mapping[str, Variable]) -> None:
    for name, value in values.items():
        e.emit(build.load_const(name))
        e.load(value)
    e.emit(build.build_map(len(values)))


def make_function(
    code: types.CodeType,
    module_globals: dict[str, Any],
    defaults: tuple[Any, ...],
    kwdefaults: dict[str, Any],
    closure: tuple[types.CellType, ...],
    attributes: dict[str, Any],
    described: dict[str, Any],
    annotate: Any,
    annotations: Any,
) -> types.FunctionType:
    """A function that the frame made, made again; called from generated code."""
    function = types.FunctionType(code, module_globals, code.co_name, defaults or None, closure or None)
    function.__kwdefaults__ = kwdefaults or None
    if annotations is not None:
        function.__annotations__ = annotations
    if annotate is not None:
        _native.annotate_with(function, annotate)  # beside those that it has made
    for name, value in described.items():
        setattr(function, name, value)
    if attributes:
        function.__dict__.update(attributes)
    return function


class Method(Variable):
    """A function bound to an object: ``obj.method``, or a class method bound to its class."""

    def __init__(self, function: Variable, owner: Variable) -> None:
        self.function = function
        self.owner = owner

    def python_type(self) -> type:
        return types.MethodType

    def truth(self, m: Interpreter) -> bool:
        return True

    def as_python(self, m: Interpreter) -> Any:
        function, owner = m.builder.to_python(self.function), m.builder.to_python(self.owner)
        if not callable(function):  # as that of a class method of something else may be
            raise NotConstant(self)
        return types.MethodType(function, owner)

    def hash_key(self, m: Interpreter) -> Hashable:
        return ("method", self.function.hash_key(m), self.owner.hash_key(m))

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        return m.calls.call(self.function, [self.owner, *args], kwargs)

    def calls_through(self, m: Interpreter, args: Args, kwargs: Kwargs) -> tuple[Variable, Args, Kwargs] | None:
        return self.function, [self.owner, *args], kwargs

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name == "__self__":
            return self.owner
        if name == "__func__":
            return self.function
        if name == "__call__":
            return self
        if name == "__get__":  # one that is bound stays so, which a function's would not
            raise Unsupported("__get__ of a bound method")
        return self.function.attribute(m, name)

    def made_of(self) -> Iterable[Variable]:
        return (self.function, self.owner)

    def reconstruct(self, e: Emitter) -> None:
        e.call(types.MethodType, [self.function, self.owner])

    def __repr__(self) -> str:
        return f"<method {self.function!r} of {self.owner!r}>"


class Promised(Variable):
    """A callable that runs captured as a whole or raises: no graph breaks within it, so where one would, it is called for real."""

    def __init__(self, inner: Variable) -> None:
        self.inner = inner

    def python_type(self) -> type:
        return _native.CompiledCallable

    def truth(self, m: Interpreter) -> bool:
        return True

    def attribute(self, m: Interpreter, name: str) -> Variable:
        return self.inner.attribute(m, name)

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        return m.calls.call(self.inner, args, kwargs)


@builds(_native.CompiledCallable)
def _build_compiled(m: Interpreter, value: Any, source: Source | None) -> Variable:
    wrapped = known_part(value, "__wrapped__") if source is None else part(source, "__wrapped__")
    inner = m.builder.wrap(value.__wrapped__, wrapped)
    if not value.session.fullgraph:
        return inner
    if source is not None:
        m.guards.add(source, GuardKind.ID, value)
    return Promised(inner.realize(m))


@builds(types.FunctionType)
def _build_function(m: Interpreter, value: types.FunctionType, source: Source | None) -> Variable:
    if source is None or isinstance(source, Const):
        return _function_parts(m, value, Const(value, value.__qualname__))
    of_call = isinstance(source, (Local, Closure, CellContent)) or m.identity.hangs_from_bound(source)
    of_call = of_call or m.classes.hangs_from_alike(source) or not m.identity.lives_on(source)
    if of_call and not m.calls.understood(value):
        # Another one of the same code will do: one that is made anew for each call, or for each of equal modules.
        m.guards.add(source, GuardKind.TYPE, types.FunctionType)
        m.guards.add(part(source, "__code__"), GuardKind.ID, value.__code__)
        m.guards.add(part(source, "__globals__"), GuardKind.ID, value.__globals__)
    else:
        m.guards.add(source, GuardKind.ID, value)
    return _function_parts(m, value, source)


def _function_parts(m: Interpreter, value: types.FunctionType, base: Source) -> Function:
    if _native.is_overridden(value):
        raise Unsupported(f"{value.__qualname__}, which an extension runs in its own way")
    defaults: list[Variable] = [Lazy(d, Default(base, i)) for i, d in enumerate(value.__defaults__ or ())]
    keyword: dict[str, Variable] = {k: Lazy(d, KwDefault(base, k)) for k, d in (value.__kwdefaults__ or {}).items()}
    cells: list[Cell] = []
    for i, real in enumerate(value.__closure__ or ()):
        cells.append(m.builder.cell_at(real, CellContent(base, i), Item(Attr(base, "__closure__"), i)))
    made = Function(value.__code__, value.__globals__, value.__qualname__, defaults, keyword, cells, value)
    made.base = base
    return made


@builds(types.CellType)
def _build_cell(m: Interpreter, value: types.CellType, source: Source | None) -> Variable:
    m.guards.of_type(source, types.CellType)
    assert source is not None
    cell = Cell()
    cell.source = source
    m.builder.fill_cell(cell, value, Attr(source, "cell_contents"))
    return cell


@builds(types.MethodType)
def _build_method(m: Interpreter, value: types.MethodType, source: Source | None) -> Variable:
    if source is None or isinstance(source, Const):
        source = Const(value)
    else:
        m.guards.add(source, GuardKind.TYPE, types.MethodType)
    function = m.builder.wrap(value.__func__, Attr(source, "__func__"))
    owner = m.builder.wrap(value.__self__, Attr(source, "__self__"))
    return Method(function, owner)


@handles(types.MethodType)
def _method(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.effects.created(Method(args[0].realize(m), args[1].realize(m)))


@handles(types.CellType)
def _cell(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.effects.created(Cell(args[0] if args else None))


@handles(_native.check_bound)
def _check_bound(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """Nothing: the operation that follows in what goes on from a break looks at the cell."""
    return Constant(None)
