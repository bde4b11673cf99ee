"""Dictionaries, with their ordered and default kinds. Changes are tracked for replay."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from capture.bytecode import build
from capture.errors import NotConstant, Unsupported
from capture.sources import DictKeyAt

from .base import Args, Interpreter, Kwargs, Variable
from .constants import BoundBuiltin, Constant
from .hashing import DICT_KEY, hash_as
from .identities import check_ids
from .lookups import has_entry, shown_type
from .mapping_views import DictIterator, DictView, Entries
from .own_keys import check_kept
from .placeholders import Lazy, real_of
from .reconstruction import Emitter, method_of
from .sequences import builtin_method, has_method


class VarKey:
    """A variable as dictionary key: hashed by identity of the value it stands for."""

    __slots__ = ("var",)

    def __init__(self, var: Variable) -> None:
        self.var = var

    def __hash__(self) -> int:
        return id(self.var)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VarKey) and other.var is self.var


class Dict(Entries):
    """A dict, ``OrderedDict`` or ``defaultdict`` (``cls``): hashed key -> (key, value), in order.

    An input's values are looked at one by one; its set of keys is guarded only when something depends on it.
    """

    may_tell_hashes = False
    #: Attributes that the frame gave to an ordered dictionary of its own.
    attrs: Mapping[str, Variable] = types.MappingProxyType({})

    #: Which entries are a dataclass's fields, where that was asked: by what mark, they, and all that was looked at for it.
    known_fields: tuple[Variable, tuple[Variable, ...], tuple[Variable, ...]] | None = None

    def __init__(
        self, entries: dict[Hashable, tuple[Variable, Variable]], cls: type = dict, factory: Variable | None = None
    ) -> None:
        self.entries = entries
        self.cls = cls
        self.factory = factory
        self.age = 0
        self.original: dict[Hashable, tuple[Variable, Variable]] = {}
        #: Which of the original keys went, in order, whether or not they came back; and whether others were put before the rest.
        self.gone: dict[Hashable, Variable] = {}
        self.filled_anew = False
        self.guard_keys: Callable[[], None] | None = None
        self.guard_absent: Callable[[Hashable], None] | None = None

    def python_type(self) -> type:
        return self.cls

    @property
    def takes_attributes(self) -> bool:  # type: ignore[override]
        """Of an ordered dictionary that the frame made."""
        return self.cls is collections.OrderedDict and self.source is None and self.holder is None

    def set_attribute(self, m: Interpreter, name: str, value: Variable) -> None:
        if not self.takes_attributes or has_entry(self.cls, name):
            super().set_attribute(m, name, value)
        self.attrs = {**self.attrs, name: value}
        m.effects.mutated(self)

    def delete_attribute(self, m: Interpreter, name: str) -> None:
        if name not in self.attrs:
            super().delete_attribute(m, name)
        self.attrs = {each: value for each, value in self.attrs.items() if each != name}
        m.effects.mutated(self)

    def as_python(self, m: Interpreter) -> Any:
        if self.cls is not dict or self.source is not None:
            raise NotConstant(self)
        return {m.builder.to_python(k): m.builder.to_python(v) for k, v in self.entries.values()}

    def whole(self, m: Interpreter) -> dict[Hashable, tuple[Variable, Variable]]:
        """The entries, for uses that depend on which keys there are."""
        if self.guard_keys is not None:
            guard, self.guard_keys, self.guard_absent = self.guard_keys, None, None
            guard()
        return self.entries

    def kept_keys(self, m: Interpreter) -> dict[Hashable, Variable] | None:
        if self.cls is not dict:
            return None
        entries = list(self.whole(m).items())
        kept = {hashed: key for hashed, (key, _) in entries}
        if len(self.entries) != len(entries):
            raise Unsupported("a dictionary that is changed by the methods that compare its keys")
        return kept

    def in_order(self, m: Interpreter) -> dict[Hashable, tuple[Variable, Variable]]:
        return self.whole(m)

    def hash_key(self, m: Interpreter) -> Hashable:
        m.errors.throw(TypeError, f"unhashable type: {shown_type(self.cls)!r}")

    def find(self, m: Interpreter, key: Variable) -> Variable | None:
        """The value under ``key``, or None; guarded either way."""
        found = self.entry(m, key)
        return None if found is None else found[1]

    def entry(self, m: Interpreter, key: Variable) -> tuple[Hashable, Variable] | None:
        """What ``key`` is hashed as, and the value under it; None if there is none; guarded either way."""
        if isinstance(key, Lazy) and isinstance(key.source, DictKeyAt) and not self.entries:
            self.whole(m)
            return None
        key = key.realize(m)
        if self.entries and not key.may_be_among(m, self.entries):
            self.whole(m)
            return None
        hashed = hash_as(m, key, DICT_KEY)
        found = self.under(m, hashed)
        return None if found is None else (hashed, found)

    def under(self, m: Interpreter, hashed: Hashable) -> Variable | None:
        """The value under what a key is hashed as, or None; guarded either way."""
        check_ids(m, (hashed,), self.entries)
        entry = self.entries.get(hashed)
        if entry is None:
            if self.guard_absent is not None:
                self.guard_absent(hashed)
            else:
                self.whole(m)
            return None
        if self.source is not None and hashed in self.original and not isinstance(hashed, VarKey):
            m.guards.reach(entry[1], self.source, hashed)
        return entry[1]

    def truth(self, m: Interpreter) -> bool:
        return bool(self.in_order(m))

    def length(self, m: Interpreter) -> Variable:
        return Constant(len(self.in_order(m)))

    def iterate(self, m: Interpreter) -> Variable:
        return m.effects.created(DictIterator(m, self, "keys"))

    def contains(self, m: Interpreter, value: Variable) -> bool:
        found = self.find(m, value)
        if found is not None:
            found.realize(m)  # reading the value at guard time is what shows that the key is there
        return found is not None

    def item(self, m: Interpreter, key: Variable) -> Variable:
        found = self.find(m, key)
        if found is None:
            if self.factory is not None and not m.builder.is_none(self.factory):
                value = m.calls.call(self.factory, [], {})
                came = self.find(m, key) if _KEEPS_WHAT_CAME else None
                if came is not None:
                    return came
                self.set_item(m, key, value)
                return value
            m.errors.throw_value(KeyError, [key.realize(m)])
        return found

    def set_item(self, m: Interpreter, key: Variable, value: Variable) -> None:
        key = key.realize(m)
        self.set_under(m, key, hash_as(m, key, DICT_KEY), value)

    def set_under(self, m: Interpreter, key: Variable, hashed: Hashable, value: Variable) -> None:
        """The same where it is known what the key is hashed as."""
        check_ids(m, (hashed,), self.entries)
        old = self.entries.get(hashed)
        if old is None:
            if self.guard_absent is not None:  # what else is in it counts for nothing
                self.guard_absent(hashed)
            else:
                self.whole(m)
            self.age += 1
        self.entries[hashed] = (key if old is None else old[0], value)
        m.effects.mutated(self)

    def delete_item(self, m: Interpreter, key: Variable) -> None:
        found = self.entry(m, key)
        if found is None:
            m.errors.throw_value(KeyError, [key.realize(m)])
        self.whole(m)
        self.take_out(found[0])
        m.effects.mutated(self)

    def take_out(self, hashed: Hashable) -> tuple[Variable, Variable]:
        """Remove an entry that is there: what it was."""
        self.age += 1
        if hashed in self.original:
            self.gone.setdefault(hashed, self.original[hashed][0])
        return self.entries.pop(hashed)

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name == "__class__":
            return m.builder.known(self.cls)
        if name == "default_factory" and self.cls is collections.defaultdict:
            return self.factory or Constant(None)
        if name in self.attrs:
            return self.attrs[name]
        if not has_entry(self.cls, name):
            if self.cls is collections.OrderedDict and self.source is not None:
                found = self.own_attribute(m, name)
                if found is not None:
                    return found
            m.errors.throw(AttributeError, f"{shown_type(self.cls)!r} object has no attribute {name!r}")
        if has_method(self, name) or name == "update":
            return BoundBuiltin(self, name)
        if name == "fromkeys":
            return m.builder.known(getattr(self.cls, name))
        raise Unsupported(f"{self.cls.__name__}.{name}")

    def own_attribute(self, m: Interpreter, name: str) -> Variable | None:
        """What an ordered dictionary from outside has for an attribute; None for nothing."""
        raise Unsupported("an attribute of an ordered dictionary's own")

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name in ("update", "__init__"):
            self.update(m, [a.realize(m) for a in args], kwargs)
            return Constant(None)
        return builtin_method(self, m, name, args, kwargs)

    def update(self, m: Interpreter, args: Args, kwargs: Kwargs) -> None:
        """``dict.update``: a mapping or an iterable of pairs, and names."""
        if len(args) > 1:
            raise Unsupported("a dictionary of more than one")
        for source in args:
            size = len(source.entries) if isinstance(source, Dict) else 0
            for key, value in m.iteration.pairs(source):
                self.set_item(m, key, value)
                if isinstance(source, Dict) and len(source.entries) != size:  # by a method that compares keys
                    m.errors.throw(RuntimeError, "dict mutated during update")
        for name, value in kwargs.items():
            self.set_item(m, Constant(name), value)

    def py_get(self, m: Interpreter, key: Variable, default: Variable | None = None) -> Variable:
        """``dict.get``."""
        return self.find(m, key) or default or Constant(None)

    def py_setdefault(self, m: Interpreter, key: Variable, default: Variable | None = None) -> Variable:
        """``dict.setdefault``."""
        key = key.realize(m)
        hashed = hash_as(m, key, DICT_KEY)
        found = self.under(m, hashed)
        if found is None:
            found = default or Constant(None)
            self.set_under(m, key, hashed, found)
        return found

    def py_pop(self, m: Interpreter, key: Variable, default: Variable | None = None) -> Variable:
        """``dict.pop``; raises ``KeyError`` in the program."""
        found = self.entry(m, key)
        if found is None:
            if default is None:
                m.errors.throw_value(KeyError, [key])
            return default
        self.whole(m)
        self.take_out(found[0])
        m.effects.mutated(self)
        return found[1]

    def py_popitem(self, m: Interpreter, last: Variable | None = None) -> Variable:
        """``dict.popitem``, and that of ``OrderedDict``; raises ``KeyError`` in the program."""
        if not self.whole(m):
            m.errors.throw(KeyError, "popitem(): dictionary is empty")
        newest = last is None or m.operators.truth(last)
        hashed = next(reversed(self.entries)) if newest else next(iter(self.entries))
        key, value = self.take_out(hashed)
        m.effects.mutated(self)
        return m.builder.new_tuple([key, value])

    def py_move_to_end(self, m: Interpreter, key: Variable, last: Variable | None = None) -> Variable:
        """``OrderedDict.move_to_end``; raises ``KeyError`` in the program."""
        found = self.entry(m, key)
        if found is None:
            m.errors.throw_value(KeyError, [key])
        hashed = found[0]
        self.whole(m)
        entry = self.take_out(hashed)
        rest = list(self.entries.items())
        if last is None or m.operators.truth(last):
            self.entries[hashed] = entry
        else:
            self.filled_anew = True
            self.entries.clear()
            self.entries[hashed] = entry
            self.entries.update(rest)
        m.effects.mutated(self)
        return Constant(None)

    def py_clear(self, m: Interpreter) -> Variable:
        """``dict.clear``."""
        self.age += 1
        self.filled_anew = True
        self.whole(m).clear()
        m.effects.mutated(self)
        return Constant(None)

    def py_copy(self, m: Interpreter) -> Variable:
        """``dict.copy``."""
        return m.effects.created(Dict(dict(self.whole(m)), self.cls, self.factory))

    def py_keys(self, m: Interpreter) -> Variable:
        """``dict.keys``."""
        return m.effects.created(DictView(self, "keys"))

    def py_values(self, m: Interpreter) -> Variable:
        """``dict.values``."""
        return m.effects.created(DictView(self, "values"))

    def py_items(self, m: Interpreter) -> Variable:
        """``dict.items``."""
        return m.effects.created(DictView(self, "items"))

    def made_of(self) -> Iterable[Variable]:
        check_kept(self, self.entries)
        parts = [*self.attrs.values(), *(x for pair in self.entries.values() for x in pair)]
        return [*parts, self.factory] if self.factory is not None else parts

    def reconstruct(self, e: Emitter) -> None:
        if self.cls is not dict:
            e.emit(build.push_callable(build.load_const(self.cls)))
            if self.cls is collections.defaultdict:
                e.load(self.factory or Constant(None))
        for key, value in self.entries.values():
            e.load(key)
            e.load(value)
        e.emit(build.build_map(len(self.entries)))
        if self.cls is not dict:
            e.emit(build.call(2 if self.cls is collections.defaultdict else 1))
        if self.attrs:
            name = e.temp()
            e.emit(build.copy(1), build.store_fast(name))
            self.set_attributes(e, name)

    def set_attributes(self, e: Emitter, name: str) -> None:
        """Give the one in the local ``name`` what the frame set on it."""
        for attribute, value in self.attrs.items():
            e.emit(build.push_callable(build.load_const(object.__setattr__)), build.load_fast(name))
            e.emit(build.load_const(attribute))
            e.load(value)
            e.emit(build.call(3), build.pop())

    def reconstruct_empty(self, e: Emitter) -> None:
        e.call(self.cls, [self.factory or Constant(None)] if self.cls is collections.defaultdict else [])

    def fill(self, e: Emitter) -> None:
        name = e.temps[id(self)]
        self.set_attributes(e, name)
        for key, value in self.entries.values():
            e.load(value)
            e.emit(build.load_fast(name))
            e.load(key)
            e.emit(build.store_subscr())

    def entries_to_set(self) -> list[tuple[Variable, Variable]]:
        """What it is to be given: all that is new or came back, or all that it holds where it must be filled anew.

        An entry that the frame did not change is not read: nothing says that a later call's dict has it.
        """
        before, now = self.original, self.entries
        if self.filled_anew:
            return list(now.values())
        changed = (
            key for key, entry in now.items() if key in self.gone or before.get(key, ("", None))[1] is not entry[1]
        )
        return [now[key] for key in changed]

    def let_go(self) -> Iterable[Any]:
        now = self.entries
        return [
            real_of(value) for key, (_, value) in self.original.items() if key not in now or now[key][1] is not value
        ]

    def written(self) -> Iterable[Variable]:
        check_kept(self, self.entries)
        check_kept(self, self.gone)
        gone = () if self.filled_anew else self.gone.values()
        return [*gone, *(x for pair in self.entries_to_set() for x in pair)]

    def replay(self, e: Emitter) -> None:
        if self.filled_anew:
            e.call_discarding(method_of(self.cls, "clear"), [self])
        else:
            # One that came back stands elsewhere: whoever is iterating over it meets it again, or not.
            for key_var in self.gone.values():
                e.call_discarding(method_of(self.cls, "__delitem__"), [self, key_var])
        for key_var, value in self.entries_to_set():
            e.emit(build.push_callable(build.load_const(method_of(self.cls, "__setitem__"))))
            e.load(self)
            e.load(key_var)
            e.load(value)
            e.emit(build.call(3), build.pop())

    def as_argument(self, m: Interpreter) -> tuple[Any, Any]:
        pairs = {m.builder.to_python(k): v.realize(m).as_argument(m) for k, v in self.in_order(m).values()}
        return {k: p[0] for k, p in pairs.items()}, {k: p[1] for k, p in pairs.items()}

    def contents(self, m: Interpreter) -> Iterable[Variable]:
        return [v for _, v in self.in_order(m).values()]

    def binary(self, m: Interpreter, symbol: str, other: Variable) -> Variable | None:
        if symbol != "|" or not isinstance(other, Dict):
            return None
        kind = other if self.cls is dict else self  # a subclass on the right is asked first
        merged = m.effects.created(Dict(dict(self.whole(m)), kind.cls, kind.factory))
        merged.method(m, "update", [other], {})
        return merged

    def inplace(self, m: Interpreter, symbol: str, other: Variable) -> Variable | None:
        if symbol != "|=":
            return None
        self.method(m, "update", [other], {})
        return self

    def compare(self, m: Interpreter, symbol: str, other: Variable) -> Variable | None:
        if symbol not in ("==", "!=") or not isinstance(other, Dict):
            return None
        return Constant(_equal(m, self, other) == (symbol == "=="))


def _equal(m: Interpreter, left: Dict, right: Dict) -> bool:
    a, b = left.whole(m), right.whole(m)
    if len(a) != len(b):
        return False
    if collections.OrderedDict in (left.cls, right.cls) and not all(m.builder.is_constant(v) for _, v in a.values()):
        raise Unsupported("comparison of ordered dictionaries, whose values are met in another order than theirs")
    if left.cls is right.cls is collections.OrderedDict and list(a) != list(b):
        return False
    return all(k in b and m.operators.equal(v, b[k][1]) for k, (_, v) in a.items())


def _keeps_what_came() -> bool:
    """Whether a dictionary with a factory keeps what the factory itself puts under the key, as newer ones do."""
    tried: collections.defaultdict[int, int] = collections.defaultdict(lambda: (tried.__setitem__(0, 1), 2)[1])  # type: ignore[func-returns-value]
    return tried[0] == 1


_KEEPS_WHAT_CAME = _keeps_what_came()
