"""Side effects: what the frame changed on objects from outside, applied to the real objects after the graph ran.

All new values are pushed to locals first, so that no source is read after the first change.
"""

from __future__ import annotations

import collections
import contextlib
import types
from collections.abc import Callable
from typing import Any

from .bytecode import Instruction, build
from .emit import Emitter
from .errors import Unsupported
from .evaluator.machine import Machine
from .variables.base import Variable, resolved
from .variables.constants import Constant
from .variables.deques import Deque
from .variables.functions import Cell
from .variables.lookups import class_lookup, is_data_descriptor
from .variables.mappings import Dict
from .variables.objects import Object
from .variables.reconstruction import method_of
from .variables.sequences import List
from .variables.sets import Set

_WHOLE = slice(None)


class Effects:
    """The changes of one attempt: which objects, and the values they need."""

    def __init__(self, m: Machine, cellvars: tuple[str, ...]) -> None:
        self.m = m
        self.cellvars = frozenset(cellvars)
        self.targets = [v for v in m.effects.changed.values() if self.is_outside(v)]
        self.globals = list(m.globals.written.items())

    def is_outside(self, variable: Variable) -> bool:
        if isinstance(variable, Cell) and variable.name is not None:
            return variable.name not in self.cellvars
        return variable.source is not None

    def __bool__(self) -> bool:
        return bool(self.targets or self.globals)

    def roots(self) -> list[Variable]:
        """Every object changed and every value stored."""
        found: list[Variable] = []
        for target in self.targets:
            found.append(target)
            found.extend(_values(target))
        found.extend(v for _, (_, v) in self.globals if v is not None)
        return found

    def emit(self, e: Emitter) -> None:
        """Load everything, then apply in the order of first change."""
        saved: dict[int, str] = {}
        for value in map(resolved, self.roots()):
            if id(value) in saved or isinstance(value, Constant):
                continue
            if isinstance(value, Cell) and value.name is not None:
                continue
            e.load(value)
            saved[id(value)] = name = e.temp()
            e.emit(build.store_fast(name))
            e.temps.setdefault(id(value), name)
        for target in self.targets:
            _APPLY[_family(target)](e, target)
        for (_, name), (namespace, content) in self.globals:
            self.store_global(e, namespace, name, content)

    def store_global(self, e: Emitter, namespace: dict[str, Any], name: str, value: Variable | None) -> None:
        if value is None:
            e.emit(build.push_callable(build.load_const(dict.__delitem__)), build.load_const(namespace))
            e.emit(build.load_const(name), build.call(2), build.pop())
            return
        e.load(value)
        e.emit(build.load_const(namespace), build.load_const(name), build.store_subscr())


def _family(target: Variable) -> type[Variable]:
    for cls in type(target).__mro__:
        if cls in _APPLY:
            return cls
    raise Unsupported(f"side effect on {target!r}")


def _values(target: Variable) -> list[Variable]:
    if isinstance(target, List):
        return list(target.items)
    if isinstance(target, Dict):
        return [x for pair in _entries_to_set(target) for x in pair]
    if isinstance(target, Set):
        return list(target.entries.values())
    if isinstance(target, Object):
        return [v for v in target.attrs.values() if v is not None]
    if isinstance(target, Cell):
        return [] if target.content is None else [target.content]
    raise Unsupported(f"side effect on {target!r}")


def _apply_list(e: Emitter, target: List) -> None:
    if target.cls is list and not target.is_payload:
        e.load_list(target.items)
        e.load(target)
        e.emit(build.load_const(_WHOLE), build.store_subscr())
        return
    e.call_discarding(method_of(target.cls, "clear"), [target])
    e.emit(build.push_callable(build.load_const(method_of(target.cls, "extend"))))
    e.load(target)
    e.load_list(target.items)
    e.emit(build.call(2), build.pop())


def _apply_deque(e: Emitter, target: Deque) -> None:
    if target.age:
        _apply_list(e, target)
        return
    for i, value in enumerate(target.items):  # in place: what iterates over it goes on
        e.call_discarding(collections.deque.__setitem__, [target, Constant(i), value])


def _entries_to_set(target: Dict) -> list[tuple[Variable, Variable]]:
    """What a dict is to be given: all that is new, or all that it holds where it must be filled anew.

    An entry that the frame did not change is not read: nothing says that a later call's dict has it.
    """
    before, now = target.original, target.entries
    if not _keeps_order(target):
        return list(now.values())
    return [entry for key, entry in now.items() if key not in before or before[key][1] is not entry[1]]


def _keeps_order(target: Dict) -> bool:
    """Whether only values changed and keys were added."""
    return list(target.entries)[: len(target.original)] == list(target.original)


def _apply_dict(e: Emitter, target: Dict) -> None:
    if not _keeps_order(target):
        e.call_discarding(method_of(target.cls, "clear"), [target])
    for key_var, value in _entries_to_set(target):
        e.emit(build.push_callable(build.load_const(method_of(target.cls, "__setitem__"))))
        e.load(target)
        e.load(key_var)
        e.load(value)
        e.emit(build.call(3), build.pop())


def _apply_set(e: Emitter, target: Set) -> None:
    e.call_discarding(set.clear, [target])
    e.emit(build.push_callable(build.load_const(set.update)))
    e.load(target)
    e.load_list(list(target.entries.values()))
    e.emit(build.call(2), build.pop())


def _discard_attribute(target: object, name: str) -> None:
    """What the frame itself had put there need not have been there before, this time or another."""
    with contextlib.suppress(AttributeError):
        object.__delattr__(target, name)


def _apply_object(e: Emitter, target: Object) -> None:
    for name, value in target.attrs.items():
        raw, _ = class_lookup(e.m, target.cls, name)
        if value is None:
            e.call_discarding(_discard_attribute, [target, Constant(name)])
        elif is_data_descriptor(e.m, raw) and not isinstance(raw, types.MemberDescriptorType):
            e.load(value)
            e.load(target)
            e.emit(build.load_attr("__dict__"), build.load_const(name), build.store_subscr())
        else:
            e.call_discarding(object.__setattr__, [target, Constant(name), value])


def _apply_cell(e: Emitter, target: Cell) -> None:
    if target.name is not None:
        if target.content is None:
            e.emit([Instruction("DELETE_DEREF", argval=target.name)])
            return
        e.load(target.content)
        e.emit(build.store_deref(target.name))
        return
    if target.content is None:
        e.call_discarding(delattr, [target, Constant("cell_contents")])
        return
    e.load(target.content)
    e.load(target)
    e.emit(build.store_attr("cell_contents"))


_APPLY: dict[type[Variable], Callable[[Emitter, Any], None]] = {
    Deque: _apply_deque,
    List: _apply_list,
    Dict: _apply_dict,
    Set: _apply_set,
    Object: _apply_object,
    Cell: _apply_cell,
}
