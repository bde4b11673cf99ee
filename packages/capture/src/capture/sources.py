"""Where a value comes from: how to say it, how generated code pushes it again, how a guard reads it.

The evaluator gives every value that enters a capture one of these; guards and emitted code read through them.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from capture.bytecode import build
from capture.bytecode.instruction import Instruction

# Attributes of nn.Module that hold what users write as plain attributes.
_MODULE_DICTS = ("_parameters", "_buffers", "_modules")


@dataclass(frozen=True)
class FrameValues:
    """What a frame holds at entry, for reading sources from Python. `func` gives the closure."""

    args: Mapping[str, Any]
    globals: Mapping[str, Any] = field(default_factory=dict)
    builtins: Mapping[str, Any] = field(default_factory=dict)
    func: types.FunctionType | None = None

    def free(self, name: str) -> Any:
        """The content of the function's free variable. Raises `LookupError` if there is none or it is empty."""
        return _content(self.cell(name))

    def cell(self, name: str) -> types.CellType:
        """The cell of the function's free variable. Raises `LookupError` if there is none."""
        if self.func is None or name not in self.func.__code__.co_freevars:
            raise LookupError(f"no free variable {name!r}")
        return (self.func.__closure__ or ())[self.func.__code__.co_freevars.index(name)]


class Source:
    """Base of all sources; equal sources read the same place."""

    __slots__ = ("_hash",)
    __match_args__: ClassVar[tuple[str, ...]]
    _hash: int

    @property
    def name(self) -> str:
        """The place as a user would write it: `self.layer[0].weight`."""
        raise NotImplementedError

    @property
    def parent(self) -> Source | None:
        """The source this one is read from; None for a root."""
        return None

    def load(self) -> list[Instruction]:
        """Instructions that push the value, in code that runs in the captured frame's place."""
        raise NotImplementedError

    def read(self, values: FrameValues) -> Any:
        """The value now. Raises what reading it raises."""
        raise NotImplementedError

    @property
    def path(self) -> Iterator[Source]:
        """The source itself, its parent, and so on to the outermost."""
        source: Source | None = self
        while source is not None:
            yield source
            source = source.parent

    @property
    def root(self) -> Source:
        """The outermost parent."""
        source: Source = self
        while (parent := source.parent) is not None:
            source = parent
        return source

    def __str__(self) -> str:
        return self.name


def _kept_hash(source: Source) -> int:
    """The hash of a source's kind and fields, computed once: sources nest, and are looked up often."""
    try:
        return source._hash
    except AttributeError:
        found = hash((type(source), *(getattr(source, name) for name in type(source).__match_args__)))
        object.__setattr__(source, "_hash", found)
        return found


@dataclass(frozen=True, slots=True)
class Local(Source):
    """An argument of the frame, `*args` and `**kwargs` as the tuple and the dict.

    `load` reads the plain local: code that makes a cell of it must use `LOAD_DEREF` after its `MAKE_CELL`.
    """

    local: str

    @property
    def name(self) -> str:
        return self.local

    def load(self) -> list[Instruction]:
        return build.load_fast(self.local)

    def read(self, values: FrameValues) -> Any:
        return values.args[self.local]


@dataclass(frozen=True, slots=True)
class Closure(Source):
    """The content of a free variable's cell."""

    free: str

    @property
    def name(self) -> str:
        return self.free

    def load(self) -> list[Instruction]:
        return build.load_deref(self.free)

    def read(self, values: FrameValues) -> Any:
        return values.free(self.free)


@dataclass(frozen=True, slots=True)
class ClosureCell(Source):
    """A free variable's cell itself."""

    free: str

    @property
    def name(self) -> str:
        return f"the cell of {self.free}"

    def load(self) -> list[Instruction]:
        return build.load_closure(self.free)

    def read(self, values: FrameValues) -> Any:
        return values.cell(self.free)


@dataclass(frozen=True, slots=True)
class Global(Source):
    """A global of the frame's own module; not a builtin."""

    variable: str

    @property
    def name(self) -> str:
        return self.variable

    def load(self) -> list[Instruction]:
        return build.load_global(self.variable)

    def read(self, values: FrameValues) -> Any:
        return values.globals[self.variable]


@dataclass(frozen=True, slots=True)
class Builtin(Source):
    """A builtin that no global of the frame's module hides."""

    builtin: str

    @property
    def name(self) -> str:
        return self.builtin

    def load(self) -> list[Instruction]:
        return build.load_global(self.builtin)

    def read(self, values: FrameValues) -> Any:
        return values.builtins[self.builtin]


@dataclass(frozen=True, slots=True)
class Namespace(Source):
    """The dictionary of the frame's globals, or of its builtins, itself: for guards alone."""

    of: Literal["globals", "builtins"]

    @property
    def name(self) -> str:
        return f"the frame's {self.of}"

    def read(self, values: FrameValues) -> Any:
        return getattr(values, self.of)


@dataclass(frozen=True, slots=True, eq=False)
class ModuleGlobal(Source):
    """A global of another module: what an inlined function's code names. `namespace` is its `__globals__`."""

    module: str
    variable: str
    namespace: dict[str, Any] = field(repr=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModuleGlobal) and self.namespace is other.namespace and self.variable == other.variable

    def __hash__(self) -> int:
        return hash((id(self.namespace), self.variable))

    @property
    def parent(self) -> Source:
        return Const(self.namespace, self.module)

    @property
    def name(self) -> str:
        return f"{self.module}.{self.variable}"

    def load(self) -> list[Instruction]:
        return [
            *build.load_const(self.namespace),
            *build.load_const(self.variable),
            *build.binary_subscr(),
        ]

    def read(self, values: FrameValues) -> Any:
        return self.namespace[self.variable]


@dataclass(frozen=True, slots=True, eq=False)
class Const(Source):
    """An object known at capture, held by the generated code. `label` names it in reports."""

    value: Any
    label: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and self.value is other.value

    def __hash__(self) -> int:
        return hash(("const", id(self.value)))

    @property
    def name(self) -> str:
        return self.label or f"<{type(self.value).__qualname__} constant>"

    def load(self) -> list[Instruction]:
        return build.load_const(self.value)

    def read(self, values: FrameValues) -> Any:
        return self.value


@dataclass(frozen=True, slots=True)
class ReadFrom(Source):
    """Base of the sources that are read from another, `base`."""

    base: Source

    __hash__ = _kept_hash

    @property
    def parent(self) -> Source:
        return self.base


@dataclass(frozen=True, slots=True)
class Attr(ReadFrom):
    """`base.attr`. With `via_dict`, the entry of the instance's `__dict__`, past properties and `__getattr__`."""

    attr: str
    via_dict: bool = False

    __hash__ = _kept_hash

    @property
    def name(self) -> str:
        return f"{self.base.name}.{self.attr}"

    def load(self) -> list[Instruction]:
        if not self.via_dict:
            return [*self.base.load(), *build.load_attr(self.attr)]
        return [
            *self.base.load(),
            *build.load_attr("__dict__"),
            *build.load_const(self.attr),
            *build.binary_subscr(),
        ]

    def read(self, values: FrameValues) -> Any:
        base = self.base.read(values)
        return vars(base)[self.attr] if self.via_dict else getattr(base, self.attr)


@dataclass(frozen=True, slots=True)
class Item(ReadFrom):
    """`base[key]` with a constant key: an index of a list or tuple, or a key of a dict.

    Dicts and their subclasses are read as plain dicts: no `__missing__`, no overridden `__getitem__`.
    """

    key: Any
    #: It is a dict whose class has a `__getitem__` of its own.
    overridden: bool = False

    __hash__ = _kept_hash

    @property
    def name(self) -> str:
        if isinstance(self.base, Attr) and self.base.attr in _MODULE_DICTS and isinstance(self.key, str):
            owner = self.base.base.name
            return f"{owner}.{self.key}" if self.key.isidentifier() else f"{owner}[{self.key}]"
        return f"{self.base.name}[{self.key!r}]"

    def load(self) -> list[Instruction]:
        if self.overridden:
            plain = build.load_const(dict.__getitem__)
            return build.call_function(plain, self.base.load(), build.load_const(self.key))
        return [*self.base.load(), *build.load_const(self.key), *build.binary_subscr()]

    def read(self, values: FrameValues) -> Any:
        base = self.base.read(values)
        if isinstance(base, dict):
            return dict.__getitem__(base, self.key)
        return base[self.key]


@dataclass(frozen=True, slots=True)
class TypeOf(ReadFrom):
    """`type(base)`."""

    __hash__ = _kept_hash

    @property
    def name(self) -> str:
        return f"type({self.base.name})"

    def load(self) -> list[Instruction]:
        return build.call_function(build.load_const(type), self.base.load())

    def read(self, values: FrameValues) -> Any:
        return type(self.base.read(values))


@dataclass(frozen=True, slots=True)
class DictKeyAt(ReadFrom):
    """The dict's key at a position in its order: for keys that are not constants."""

    index: int

    __hash__ = _kept_hash

    @property
    def name(self) -> str:
        return f"list({self.base.name})[{self.index}]"

    def load(self) -> list[Instruction]:
        listed = build.call_function(build.load_const(list), self.base.load())
        return [*listed, *build.load_const(self.index), *build.binary_subscr()]

    def read(self, values: FrameValues) -> Any:
        return list(self.base.read(values))[self.index]


@dataclass(frozen=True, slots=True)
class DictValueAt(ReadFrom):
    """The dict's value at a position in its order: for keys that are not known."""

    index: int

    __hash__ = _kept_hash

    @property
    def name(self) -> str:
        return f"list({self.base.name}.values())[{self.index}]"

    def load(self) -> list[Instruction]:
        values = build.call_function(build.load_const(_listed_values), self.base.load())
        return [*values, *build.load_const(self.index), *build.binary_subscr()]

    def read(self, values: FrameValues) -> Any:
        return _listed_values(self.base.read(values))[self.index]


@dataclass(frozen=True, slots=True)
class Default(ReadFrom):
    """`base.__defaults__[index]` of a Python function."""

    index: int

    __hash__ = _kept_hash

    @property
    def name(self) -> str:
        return f"{self.base.name}.__defaults__[{self.index}]"

    def load(self) -> list[Instruction]:
        values = [*self.base.load(), *build.load_attr("__defaults__")]
        return [*values, *build.load_const(self.index), *build.binary_subscr()]

    def read(self, values: FrameValues) -> Any:
        return self.base.read(values).__defaults__[self.index]


@dataclass(frozen=True, slots=True)
class KwDefault(ReadFrom):
    """`base.__kwdefaults__[keyword]` of a Python function."""

    keyword: str

    __hash__ = _kept_hash

    @property
    def name(self) -> str:
        return f"{self.base.name}.__kwdefaults__[{self.keyword!r}]"

    def load(self) -> list[Instruction]:
        values = [*self.base.load(), *build.load_attr("__kwdefaults__")]
        return [*values, *build.load_const(self.keyword), *build.binary_subscr()]

    def read(self, values: FrameValues) -> Any:
        return self.base.read(values).__kwdefaults__[self.keyword]


@dataclass(frozen=True, slots=True)
class CellContent(ReadFrom):
    """`base.__closure__[index].cell_contents` of a Python function."""

    index: int

    __hash__ = _kept_hash

    @property
    def name(self) -> str:
        return f"{self.base.name}.__closure__[{self.index}].cell_contents"

    def load(self) -> list[Instruction]:
        cells = [*self.base.load(), *build.load_attr("__closure__")]
        cell = [*cells, *build.load_const(self.index), *build.binary_subscr()]
        return [*cell, *build.load_attr("cell_contents")]

    def read(self, values: FrameValues) -> Any:
        return _content(self.base.read(values).__closure__[self.index])


@dataclass(frozen=True, slots=True)
class FunctionGlobal(ReadFrom):
    """`base.__globals__[variable]`: a global of a function that is itself read from the frame."""

    variable: str

    __hash__ = _kept_hash

    @property
    def name(self) -> str:
        return f"{self.base.name}.__globals__[{self.variable!r}]"

    def load(self) -> list[Instruction]:
        namespace = [*self.base.load(), *build.load_attr("__globals__")]
        return [*namespace, *build.load_const(self.variable), *build.binary_subscr()]

    def read(self, values: FrameValues) -> Any:
        return self.base.read(values).__globals__[self.variable]


@dataclass(frozen=True, slots=True)
class ClassEntry(ReadFrom):
    """What the dictionaries along the MRO of the class `base` hold under a name: no descriptor is asked."""

    entry: str

    __hash__ = _kept_hash

    @property
    def name(self) -> str:
        return f"{self.base.name}.{self.entry}"

    def load(self) -> list[Instruction]:
        return build.call_function(build.load_const(_class_entry), self.base.load(), build.load_const(self.entry))

    def read(self, values: FrameValues) -> Any:
        return _class_entry(self.base.read(values), self.entry)


@dataclass(frozen=True, slots=True)
class Referent(ReadFrom):
    """What the weak reference `base` refers to, None once that is dead: nothing keeps it alive."""

    @property
    def name(self) -> str:
        return f"{self.base.name}()"

    def load(self) -> list[Instruction]:
        return build.call_function(build.load_const(weakref.ref.__call__), self.base.load())

    def read(self, values: FrameValues) -> Any:
        return weakref.ref.__call__(self.base.read(values))

    __hash__ = _kept_hash


def _class_entry(cls: type, name: str) -> Any:
    for owner in type.__dict__["__mro__"].__get__(cls):
        if name in owner.__dict__:
            return owner.__dict__[name]
    raise LookupError(f"no class of {cls.__qualname__}'s MRO holds {name!r}")


def _listed_values(entries: dict[Any, Any]) -> list[Any]:
    return list(entries.values())


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError as error:
        raise LookupError("the cell is empty") from error
