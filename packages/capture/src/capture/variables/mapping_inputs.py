"""How dictionaries from outside become variables; those with numbers for keys are read by position."""

from __future__ import annotations

import collections
import enum
import gc
import types
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from torch.nn.modules import module as torch_module

from capture._native import keys_act
from capture.bytecode import build
from capture.errors import Unsupported
from capture.guards import GuardKind
from capture.sources import Applied, Attr, Const, DictKeyAt, DictValueAt, Item, Source

from .base import Interpreter, Variable
from .building import builds
from .constants import CONSTANT_TYPES, Constant
from .lookups import own_entry, refusal_of_deletion
from .mapping_views import DictView
from .mappings import Dict
from .own_keys import has_own
from .placeholders import Lazy, real_of, resolved
from .reconstruction import Emitter
from .unseen import Unseen, hashes_plainly

#: Torch's tables of hooks that are every module's: as a module's own, which numbers they have counts rarely.
_HOOKS_OF_ALL = {id(v) for k, v in vars(torch_module).items() if k.startswith("_global_") and isinstance(v, dict)}


def numbered(value: dict[Any, Any]) -> bool:
    """Whether the keys are numbers, such as those that torch counts its hooks by: each equal module has others."""
    # Past the order of an `OrderedDict`, which may have keys that it does not have.
    return bool(value) and all(type(key) is int for key in dict.keys(value))


class Numbered(Dict):
    """An input with numbers for keys, read by position: which numbers they are counts only where they are looked at."""

    def __init__(self, value: dict[int, Any], source: Source, guard_length: Callable[[], None]) -> None:
        entries: dict[Hashable, tuple[Variable, Variable]] = {
            key: (NumberAt(key, DictKeyAt(source, i), self), Lazy(entry, DictValueAt(source, i)))
            for i, (key, entry) in enumerate(value.items())
        }
        super().__init__(entries, type(value))
        self.original = dict(entries)
        self.guard_keys = guard_length

    def whole(self, m: Interpreter) -> dict[Hashable, tuple[Variable, Variable]]:
        for key, _ in self.in_order(m).values():
            key.realize(m)
        return self.entries

    def in_order(self, m: Interpreter) -> dict[Hashable, tuple[Variable, Variable]]:
        return super().whole(m)

    def entry(self, m: Interpreter, key: Variable) -> tuple[Hashable, Variable] | None:
        if isinstance(key, NumberAt) and key.seen is None and self.has_keys_of(m, key.owner):
            entry = self.entries.get(key.value)
            return None if entry is None else (key.value, entry[1])
        self.whole(m)
        return super().entry(m, key)

    def under(self, m: Interpreter, hashed: Hashable) -> Variable | None:
        self.whole(m)
        return super().under(m, hashed)

    def has_keys_of(self, m: Interpreter, other: Numbered) -> bool:
        """Whether all keys are objects that another has as keys; guarded. Then places tell what it shares with that one."""
        theirs = {id(key.value): key.source for key, _ in other.original.values() if isinstance(key, Lazy)}
        ours = [key for key, _ in self.original.values() if isinstance(key, Lazy)]
        if not (self.entries.keys() <= self.original.keys() and all(id(key.value) in theirs for key in ours)):
            return False
        self.in_order(m)
        for key in ours:
            if key.source != theirs[id(key.value)]:
                m.guards.add(key.source, GuardKind.SAME_OBJECT, theirs[id(key.value)])
        return True


class InputDict(Unseen, Dict):
    """A dictionary from outside. What is in it counts from when that is looked at: until then the program may only put more into it."""

    takes_keys_unseen = True
    _content = ("entries", "original", "factory", "guard_keys", "guard_absent")

    def __init__(self, m: Interpreter, value: dict[Any, Any], see: Callable[[InputDict], None]) -> None:
        self.cls = type(value)
        self._value = value
        self.age = 0
        self.gone = {}
        self.filled_anew = False
        self._m = m
        self._see = see
        #: What the program put into one that it has not looked at.
        self._more: list[tuple[Variable, Variable]] = []

    def _looked(self) -> None:
        for key, value in self._more:
            super().set_item(self._m, key, value)

    def set_item(self, m: Interpreter, key: Variable, value: Variable) -> None:
        if self._see is None or not hashes_plainly(m, key):
            super().set_item(m, key, value)
            return
        self._more.append((key, value))
        self.age += 1
        m.effects.mutated(self)

    @property
    def takes_attributes(self) -> bool:  # type: ignore[override]
        """Of an ordered dictionary."""
        return self.cls is collections.OrderedDict and self.holder is None

    def own_attribute(self, m: Interpreter, name: str) -> Variable | None:
        assert self.source is not None
        return own_entry(m, self._value, self.source, name)

    def delete_attribute(self, m: Interpreter, name: str) -> None:
        raise Unsupported("deleting an attribute of an ordered dictionary from outside")

    def written(self) -> Iterable[Variable]:
        put = super().written() if self._see is None else [x for pair in self._more for x in pair]
        return [*put, *self.attrs.values()]

    def replay(self, e: Emitter) -> None:
        super().replay(e)
        if self.attrs:
            name = e.temp()
            e.load(self)
            e.emit(build.store_fast(name))
            self.set_attributes(e, name)

    def let_go(self) -> Iterable[Any]:
        if self._see is None:
            return super().let_go()
        keys = {real_of(key) for key, _ in self._more if isinstance(resolved(key), (Lazy, Constant))}
        # A look-up would ask keys whose class is the program's.
        return [value for key, value in self._value.items() if type(key) in CONSTANT_TYPES and key in keys]

    def entries_to_set(self) -> list[tuple[Variable, Variable]]:
        return super().entries_to_set() if self._see is None else self._more


def shown_by(view: Any, _: int = 0) -> Any:
    """The mapping that a read-only view shows, past views of views; a view has no other part."""
    shown = gc.get_referents(view)[0]
    return shown_by(shown) if type(shown) is types.MappingProxyType else shown


class ReadOnly(Variable):
    """What a view refuses, wherever what it shows comes from."""

    def shown(self) -> Variable:
        """What objects are compared with in its place."""
        raise NotImplementedError

    def set_item(self, m: Interpreter, key: Variable, value: Variable) -> None:
        m.errors.throw(TypeError, "'mappingproxy' object does not support item assignment")

    def delete_item(self, m: Interpreter, key: Variable) -> None:
        m.errors.throw(TypeError, f"'mappingproxy' object {refusal_of_deletion(key.python_type())}")


class InputView(ReadOnly, Dict):
    """A read-only view from outside, of a mapping that is reached by it alone."""

    def hash_key(self, m: Interpreter) -> Hashable:
        raise Unsupported("the hash of a mappingproxy")  # it may be that of what it shows

    def shown(self) -> Variable:
        raise Unsupported("a mappingproxy compared with an object, which is asked about what it shows")

    def as_operand(self, m: Interpreter) -> Variable:
        return self.py_copy(m)

    def py_copy(self, m: Interpreter) -> Variable:
        """``copy`` of what it shows, a dictionary."""
        return m.effects.created(Dict(dict(self.whole(m))))

    def inplace(self, m: Interpreter, symbol: str, other: Variable) -> Variable | None:
        if symbol == "|=":
            m.errors.throw(TypeError, "'|=' is not supported by mappingproxy; use '|' instead")
        return None


#: What a read-only view asks nothing but what is in it.
_SHOWN = (dict, collections.OrderedDict)


class NumberAt(Lazy):
    """A key of ``owner`` not looked at yet."""

    def __init__(self, value: int, source: Source, owner: Numbered) -> None:
        super().__init__(value, source)
        self.owner = owner


@builds(dict, collections.OrderedDict, collections.defaultdict, types.MappingProxyType)
def _build_mapping(m: Interpreter, value: dict[Any, Any], source: Source | None) -> Variable:
    cls: type = type(value)
    if any(namespace is value for namespace, _ in m.globals.written.values()):
        raise Unsupported("the dictionary of a module of which a global was written")
    m.guards.of_type(source, cls)
    assert source is not None
    by_place = cls in (dict, collections.OrderedDict) and numbered(value)
    if by_place and (id(value) in _HOOKS_OF_ALL or m.identity.hangs_from_bound(source)):
        return Numbered(value, source, lambda: m.guards.add(source, GuardKind.LEN, len(value)))
    if cls is types.MappingProxyType:
        kind = type(shown_by(value))
        if kind not in _SHOWN:
            raise Unsupported(f"a read-only view of a {kind.__name__}, which may answer in its own way")
        if not isinstance(source, Const):  # one view never shows another mapping
            m.guards.of_type(Applied(source, shown_by, 0), kind)
        view = InputView({}, cls)
        _see_all(m, value, source, view)
        return view
    return InputDict(m, value, lambda made: _see_all(m, value, source, made))


#: The types of views of keys, values and items, by the method that gives one.
_VIEWS = {
    type(getattr(cls(), kind)()): kind
    for cls in (dict, collections.OrderedDict)
    for kind in ("keys", "values", "items")
}


@builds(*_VIEWS)
def _build_view(m: Interpreter, value: Any, source: Source | None) -> Variable:
    """A view that somebody keeps: of a dictionary that it alone may reach."""
    m.guards.of_type(source, type(value))
    assert source is not None
    owner = m.builder.wrap(shown_by(value), Applied(source, shown_by, 0)).realize(m)
    if not isinstance(owner, Dict) or isinstance(owner, InputView):
        raise Unsupported(f"a view of a {owner.python_type().__name__}, which may answer in its own way")
    return DictView(owner, _VIEWS[type(value)])


def items_of(value: Any) -> list[tuple[Any, Any]]:
    """What is in a dictionary, of whatever class, in its order. Raises ``Unsupported`` for an ``OrderedDict`` that was changed behind its back."""
    if isinstance(value, collections.OrderedDict) and keys_act(value):  # it looks each of them up
        raise Unsupported("a dictionary from outside with keys whose class defines __hash__")
    base = next(b for b in (collections.OrderedDict, dict, types.MappingProxyType) if isinstance(value, b))
    try:
        return list(base.items(value))
    except KeyError:
        raise Unsupported("an OrderedDict whose order has keys that it does not have") from None


def _see_all(m: Interpreter, value: dict[Any, Any], source: Source, made: Dict) -> None:
    """Give the variable of a dictionary from outside what is in it, and what guards that."""
    cls = type(value)
    entries: dict[Hashable, tuple[Variable, Variable]] = {}
    literal = True
    for i, (k, v) in enumerate(items_of(value)):
        if type(k) in CONSTANT_TYPES or isinstance(k, (enum.Enum, type, types.FunctionType)):
            key: Variable = m.builder.from_python(k)
            entries[key.hash_key(m)] = (key, Lazy(v, Item(source, k)))
        else:
            literal = False
            key = m.builder.wrap(k, DictKeyAt(source, i))
            hashed = key.hash_key(m)
            if has_own(hashed):  # a guard would ask the program's methods, too
                raise Unsupported("a dictionary from outside with keys whose class defines __hash__")
            entries[hashed] = (key, Lazy(v, Item(source, k)))
    made.guard_keys = made.guard_absent = made.factory = None
    keys = tuple(value)
    if literal:
        made.guard_keys = lambda: m.guards.add(source, GuardKind.DICT_KEYS, keys)
        made.guard_absent = lambda key: guard_absent_key(m, source, key, keys)
    else:
        m.guards.add(source, GuardKind.LEN, len(value))
    if cls is collections.defaultdict:
        factory: Any = value.default_factory  # type: ignore[attr-defined]
        made.factory = m.builder.wrap(factory, Attr(source, "default_factory"))
    made.entries, made.original = entries, dict(entries)


def guard_absent_key(m: Interpreter, source: Source, key: Hashable, keys: tuple[Any, ...]) -> None:
    """An input has no such key: by itself if it is a constant, class or function, else by all keys that there are.

    Not of a class with a metaclass of the program's, which may say what equals it.
    """
    by_identity = isinstance(key, (type, types.FunctionType)) and type(key).__eq__ is object.__eq__
    if type(key) in CONSTANT_TYPES or by_identity:
        m.guards.add(source, GuardKind.NO_KEY, key)
    else:
        m.guards.add(source, GuardKind.DICT_KEYS, keys)
