"""Sources that are read from another: attributes, items, and what functions, classes and weak references hold."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch

from capture.bytecode import build
from capture.bytecode.instruction import Instruction
from capture.labels import Told
from capture.records import record

from .base import FrameValues, Source, content_of
from .roots import Local

# Attributes of nn.Module that hold what users write as plain attributes.
_TENSOR_DICTS = ("_parameters", "_buffers")
_MODULE_DICTS = (*_TENSOR_DICTS, "_modules")


@record()
class ReadFrom(Source):
    """Base of the sources that are read from another, `base`."""

    base: Source

    @property
    def parent(self) -> Source:
        return self.base

    def read(self, values: FrameValues) -> Any:
        return self.of(self.base.read(values))

    def of(self, base: Any) -> Any:
        """The value, of what `base` reads. Raises what reading it raises."""
        raise NotImplementedError

    def on(self, base: Source) -> ReadFrom:
        """The same of another base."""
        kind: Any = type(self)  # `replace` asks each field what it is
        made: ReadFrom = kind(base, *[getattr(self, name) for name in kind.__match_args__[1:]])
        return made


# Sources are asked for it more often than for all else: it is the slot itself, and no call.
setattr(ReadFrom, "parent", ReadFrom.base)  # noqa: B010


@record()
class Attr(ReadFrom):
    """`base.attr`. With `via_dict`, the entry of the instance's `__dict__`, past properties and `__getattr__`."""

    attr: str
    via_dict: bool = False

    def spelled(self) -> str:
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

    def of(self, base: Any) -> Any:
        return vars(base)[self.attr] if self.via_dict else getattr(base, self.attr)


#: Types of keys that are no objects of the program's.
PLAIN_KEYS = frozenset({str, int, bool, float, bytes, type(None), torch.dtype, torch.device, Told})


def _brief(key: Any) -> str:
    """A key in words that stay the same: what a tensor holds changes, and is much to say."""
    return f"<{type(key).__name__} {list(key.shape)}>" if isinstance(key, torch.Tensor) else repr(key)


@record()
class Item(ReadFrom):
    """`base[key]` with a constant key: an index of a list or tuple, or a key of a dict.

    Dicts and their subclasses are read as plain dicts: no `__missing__`, no overridden `__getitem__`.
    """

    key: Any
    #: It is a dict whose class has a `__getitem__` of its own.
    overridden: bool = False

    def spelled(self) -> str:
        if isinstance(self.base, Attr) and self.base.attr in _MODULE_DICTS and isinstance(self.key, str):
            owner = self.base.base.name
            return f"{owner}.{self.key}" if self.key.isidentifier() else f"{owner}[{self.key}]"
        entry = self.base.entry(self.key) if isinstance(self.base, Local) else None
        return entry or f"{self.base.name}[{_brief(self.key)}]"

    def load(self) -> list[Instruction]:
        if self.overridden:
            plain = build.load_const(dict.__getitem__)
            return build.call_function(plain, self.base.load(), build.load_const(self.key))
        return [*self.base.load(), *build.load_const(self.key), *build.binary_subscr()]

    def of(self, base: Any) -> Any:
        key = self.key.now() if type(self.key) is Told else self.key
        return dict.__getitem__(base, key) if isinstance(base, dict) else base[key]

    def without_key(self) -> Item:
        """The same, which does not keep the key alive."""
        return (
            self if type(self.key) in PLAIN_KEYS else Item(self.base, Told(self.key, _brief(self.key)), self.overridden)
        )


def is_module_owned(source: Source) -> bool:
    """Whether it is read from a module's table of parameters or buffers."""
    return isinstance(source, Item) and isinstance(source.base, Attr) and source.base.attr in _TENSOR_DICTS


@record()
class TypeOf(ReadFrom):
    """`type(base)`."""

    def spelled(self) -> str:
        return f"type({self.base.name})"

    def load(self) -> list[Instruction]:
        return build.call_function(build.load_const(type), self.base.load())

    def of(self, base: Any) -> Any:
        return type(base)


@record()
class DictKeyAt(ReadFrom):
    """The dict's key at a position in its order: for keys that are not constants."""

    index: int

    def spelled(self) -> str:
        return f"list({self.base.name})[{self.index}]"

    def load(self) -> list[Instruction]:
        listed = build.call_function(build.load_const(list), self.base.load())
        return [*listed, *build.load_const(self.index), *build.binary_subscr()]

    def of(self, base: Any) -> Any:
        return list(base)[self.index]


@record()
class DictValueAt(ReadFrom):
    """The dict's value at a position in its order: for keys that are not known."""

    index: int

    def spelled(self) -> str:
        return f"list({self.base.name}.values())[{self.index}]"

    def load(self) -> list[Instruction]:
        values = build.call_function(build.load_const(_listed_values), self.base.load())
        return [*values, *build.load_const(self.index), *build.binary_subscr()]

    def of(self, base: Any) -> Any:
        return _listed_values(base)[self.index]


@record()
class Applied(ReadFrom):
    """`function(base, index)` of a function of this package that looks into the value and changes nothing."""

    function: Callable[[Any, int], Any]
    index: int

    def spelled(self) -> str:
        return f"{self.function.__name__}({self.base.name}, {self.index})"

    def load(self) -> list[Instruction]:
        return build.call_function(build.load_const(self.function), self.base.load(), build.load_const(self.index))

    def of(self, base: Any) -> Any:
        return self.function(base, self.index)


@record()
class Default(ReadFrom):
    """`base.__defaults__[index]` of a Python function."""

    index: int

    def spelled(self) -> str:
        return f"{self.base.name}.__defaults__[{self.index}]"

    def load(self) -> list[Instruction]:
        values = [*self.base.load(), *build.load_attr("__defaults__")]
        return [*values, *build.load_const(self.index), *build.binary_subscr()]

    def of(self, base: Any) -> Any:
        return base.__defaults__[self.index]


@record()
class KwDefault(ReadFrom):
    """`base.__kwdefaults__[keyword]` of a Python function."""

    keyword: str

    def spelled(self) -> str:
        return f"{self.base.name}.__kwdefaults__[{self.keyword!r}]"

    def load(self) -> list[Instruction]:
        values = [*self.base.load(), *build.load_attr("__kwdefaults__")]
        return [*values, *build.load_const(self.keyword), *build.binary_subscr()]

    def of(self, base: Any) -> Any:
        return base.__kwdefaults__[self.keyword]


@record()
class CellContent(ReadFrom):
    """`base.__closure__[index].cell_contents` of a Python function."""

    index: int

    def spelled(self) -> str:
        return f"{self.base.name}.__closure__[{self.index}].cell_contents"

    def load(self) -> list[Instruction]:
        cells = [*self.base.load(), *build.load_attr("__closure__")]
        cell = [*cells, *build.load_const(self.index), *build.binary_subscr()]
        return [*cell, *build.load_attr("cell_contents")]

    def of(self, base: Any) -> Any:
        return content_of(base.__closure__[self.index])


@record()
class FunctionGlobal(ReadFrom):
    """`base.__globals__[variable]`: a global of a function that is itself read from the frame."""

    variable: str

    def spelled(self) -> str:
        return f"{self.base.name}.__globals__[{self.variable!r}]"

    def load(self) -> list[Instruction]:
        namespace = [*self.base.load(), *build.load_attr("__globals__")]
        return [*namespace, *build.load_const(self.variable), *build.binary_subscr()]

    def of(self, base: Any) -> Any:
        return base.__globals__[self.variable]


@record()
class ClassEntry(ReadFrom):
    """What the dictionaries along the MRO of the class `base` hold under a name: no descriptor is asked."""

    entry: str

    def spelled(self) -> str:
        return f"{self.base.name}.{self.entry}"

    def load(self) -> list[Instruction]:
        return build.call_function(build.load_const(_class_entry), self.base.load(), build.load_const(self.entry))

    def of(self, base: Any) -> Any:
        return _class_entry(base, self.entry)


@record()
class Referent(ReadFrom):
    """What the weak reference `base` refers to, None once that is dead: nothing keeps it alive."""

    def spelled(self) -> str:
        return f"{self.base.name}()"

    def load(self) -> list[Instruction]:
        return build.call_function(build.load_const(weakref.ref.__call__), self.base.load())

    def of(self, base: Any) -> Any:
        return weakref.ref.__call__(base)


@record()
class Made(ReadFrom):
    """`function(base)`: what stands for a value, made of it anew each time that it is read."""

    function: Callable[[Any], Any]

    def spelled(self) -> str:
        return self.base.name

    def load(self) -> list[Instruction]:
        return build.call_function(build.load_const(self.function), self.base.load())

    def of(self, base: Any) -> Any:
        return self.function(base)


def _class_entry(cls: type, name: str) -> Any:
    for owner in type.__dict__["__mro__"].__get__(cls):
        if name in owner.__dict__:
            return owner.__dict__[name]
    raise LookupError(f"no class of {cls.__qualname__}'s MRO holds {name!r}")


def _listed_values(entries: dict[Any, Any]) -> list[Any]:
    return list(entries.values())
