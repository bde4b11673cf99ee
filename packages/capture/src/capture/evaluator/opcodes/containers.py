"""Building, unpacking and subscripting containers; operators; formatting; structural patterns."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from typing import TypeVar

from capture.errors import Unsupported
from capture.evaluator.frame import Frame
from capture.evaluator.machine import Machine
from capture.evaluator.program import Op
from capture.variables.base import SymbolicRaise, Variable
from capture.variables.builtins import as_ascii
from capture.variables.constants import Constant, looked_up
from capture.variables.lookups import can_iterate, has_entry, shown_type
from capture.variables.mappings import Dict
from capture.variables.objects import Object
from capture.variables.operations import INPLACE
from capture.variables.sequences import List
from capture.variables.sets import Set
from capture.variables.slices import Slice
from capture.variables.texts import Written, WrittenTogether

from .registry import operation

_Container = TypeVar("_Container", List, Set, Dict)


@operation("BUILD_TUPLE")
def _build_tuple(m: Machine, frame: Frame, op: Op) -> None:
    frame.push(m.builder.new_tuple(frame.pop_many(op.arg)))


@operation("BUILD_LIST")
def _build_list(m: Machine, frame: Frame, op: Op) -> None:
    frame.push(m.effects.created(List(frame.pop_many(op.arg))))


@operation("BUILD_SET")
def _build_set(m: Machine, frame: Frame, op: Op) -> None:
    frame.push(Set.of(m, frame.pop_many(op.arg), in_order=True))


@operation("BUILD_MAP")
def _build_map(m: Machine, frame: Frame, op: Op) -> None:
    flat = frame.pop_many(2 * op.arg)
    made = m.effects.created(Dict({}))
    for key, value in zip(flat[::2], flat[1::2], strict=True):
        made.set_item(m, key, value)
    frame.push(made)


@operation("BUILD_CONST_KEY_MAP")
def _build_const_key_map(m: Machine, frame: Frame, op: Op) -> None:
    keys = m.builder.to_python(frame.pop(m))
    made = m.effects.created(Dict({}))
    for key, value in zip(keys, frame.pop_many(op.arg), strict=True):
        made.set_item(m, m.builder.from_python(key), value)
    frame.push(made)


@operation("BUILD_SLICE")
def _build_slice(m: Machine, frame: Frame, op: Op) -> None:
    parts = [p.realize(m) for p in frame.pop_many(op.arg)]
    frame.push(Slice(parts[0], parts[1], parts[2] if op.arg == 3 else Constant(None)))


@operation("BUILD_STRING")
def _build_string(m: Machine, frame: Frame, op: Op) -> None:
    parts = frame.pop_many(op.arg)
    if any(isinstance(part, Written) and part.seen is None for part in parts):
        frame.push(WrittenTogether(parts))
        return
    frame.push(Constant(m.builder.fold("".join, [[m.builder.to_python(part) for part in parts]])))


@operation("FORMAT_VALUE")
def _format_value(m: Machine, frame: Frame, op: Op) -> None:
    spec = m.builder.to_python(frame.pop(m)) if op.arg & 4 else ""
    frame.push(m.operators.format(_converted(m, frame.pop(m), op.arg & 3), spec))


def _converted(m: Machine, value: Variable, conversion: int) -> Variable:
    """A value as ``!s``, ``!r`` or ``!a`` (1 to 3) of a replacement field makes it; 0: as it is."""
    if conversion == 3:
        return as_ascii(m, value)
    return m.operators.text(value, "str" if conversion == 1 else "repr") if conversion else value


@operation("CONVERT_VALUE")
def _convert_value(m: Machine, frame: Frame, op: Op) -> None:
    frame.push(_converted(m, frame.pop(m), op.arg))


@operation("FORMAT_SIMPLE")
def _format_simple(m: Machine, frame: Frame, op: Op) -> None:
    frame.push(m.operators.format(frame.pop(m), ""))


@operation("FORMAT_WITH_SPEC")
def _format_with_spec(m: Machine, frame: Frame, op: Op) -> None:
    spec = m.builder.to_python(frame.pop(m))
    frame.push(m.operators.format(frame.pop(m), spec))


def _being_made(m: Machine, frame: Frame, op: Op, cls: type[_Container]) -> _Container:
    """The container that a display or a comprehension is filling, as deep in the stack as the operation says."""
    found = frame.stack[-op.arg].realize(m)
    assert isinstance(found, cls)
    return found


@operation("LIST_APPEND")
def _list_append(m: Machine, frame: Frame, op: Op) -> None:
    value = frame.pop_raw()
    _being_made(m, frame, op, List).py_append(m, value)


@operation("LIST_EXTEND")
def _list_extend(m: Machine, frame: Frame, op: Op) -> None:
    values = frame.pop(m)
    try:
        _being_made(m, frame, op, List).py_extend(m, values)
    except SymbolicRaise:
        if can_iterate(values.python_type()):
            raise
        m.errors.throw(TypeError, f"Value after * must be an iterable, not {shown_type(values.python_type())}")


@operation("SET_ADD")
def _set_add(m: Machine, frame: Frame, op: Op) -> None:
    value = frame.pop(m)
    _being_made(m, frame, op, Set).py_add(m, value)


@operation("SET_UPDATE")
def _set_update(m: Machine, frame: Frame, op: Op) -> None:
    values = frame.pop(m)
    _being_made(m, frame, op, Set).py_update(m, values)


@operation("MAP_ADD")
def _map_add(m: Machine, frame: Frame, op: Op) -> None:
    value, key = frame.pop_raw(), frame.pop(m)
    frame.stack[-op.arg].realize(m).set_item(m, key, value)


@operation("DICT_UPDATE")
def _dict_update(m: Machine, frame: Frame, op: Op) -> None:
    values = frame.pop(m)
    target = _being_made(m, frame, op, Dict)
    cls = values.python_type()
    if not has_entry(cls, "keys"):
        if isinstance(values, Object) and (values.attrs or has_entry(cls, "__getattr__") or values.value is not None):
            raise Unsupported(f"unpacking of a {cls.__name__}, whose class has no keys")
        m.errors.throw(TypeError, f"{shown_type(cls)!r} object is not a mapping")
    target.update(m, [values], {})


@operation("DICT_MERGE")
def _dict_merge(m: Machine, frame: Frame, op: Op) -> None:
    values = frame.pop(m)
    target = _being_made(m, frame, op, Dict)
    if not isinstance(values, Dict) and not has_entry(values.python_type(), "keys"):
        raise Unsupported(f"keywords of {values!r}")  # the interpreter's error names the function
    pairs = list(m.iteration.pairs(values))
    if any(target.find(m, key) is not None for key, _ in pairs):
        raise Unsupported("a keyword that comes twice")  # as above
    for key, value in pairs:
        target.set_item(m, key, value)


@operation("LIST_TO_TUPLE")
def _list_to_tuple(m: Machine, frame: Frame, op: Op) -> None:
    frame.push(m.builder.new_tuple(m.iteration.elements(frame.pop(m))))


def _unpacked(m: Machine, value: Variable, most: int | None = None) -> list[Variable]:
    """The elements of what is unpacked, as many as are asked for; what is not iterable raises with a message that only unpacking has."""
    cls = value.python_type()
    if not can_iterate(cls):
        m.errors.throw(TypeError, f"cannot unpack non-iterable {shown_type(cls)} object")
    return m.iteration.elements(value, most)


@operation("UNPACK_SEQUENCE")
def _unpack_sequence(m: Machine, frame: Frame, op: Op) -> None:
    value = frame.pop(m)
    values = _unpacked(m, value, op.arg + 1)
    if len(values) < op.arg:
        m.errors.throw(ValueError, f"not enough values to unpack (expected {op.arg}, got {len(values)})")
    if len(values) > op.arg:
        told = sys.version_info >= (3, 14) and value.python_type() in (tuple, list, dict)
        got = f", got {m.operators.index(value.length(m))}" if told else ""
        m.errors.throw(ValueError, f"too many values to unpack (expected {op.arg}{got})")
    frame.stack.extend(reversed(values))


@operation("UNPACK_EX")
def _unpack_ex(m: Machine, frame: Frame, op: Op) -> None:
    before, after = op.arg & 0xFF, op.arg >> 8
    values = _unpacked(m, frame.pop(m))
    if len(values) < before + after:
        m.errors.throw(
            ValueError, f"not enough values to unpack (expected at least {before + after}, got {len(values)})"
        )
    end = len(values) - after
    middle = m.effects.created(List(values[before:end]))
    frame.stack.extend(reversed([*values[:before], middle, *values[end:]]))


# Subscripts


@operation("BINARY_SUBSCR")
def _subscript(m: Machine, frame: Frame, op: Op) -> None:
    stack = frame.stack
    key, owner = stack.pop().realize(m), stack.pop().realize(m)
    stack.append(owner.item(m, key))


@operation("STORE_SUBSCR")
def _store_subscript(m: Machine, frame: Frame, op: Op) -> None:
    key, owner, value = frame.pop_raw(), frame.pop(m), frame.pop_raw()
    owner.set_item(m, key if owner.takes_keys_unseen else key.realize(m), value)


@operation("DELETE_SUBSCR")
def _delete_subscript(m: Machine, frame: Frame, op: Op) -> None:
    key, owner = frame.pop(m), frame.pop(m)
    owner.delete_item(m, key)


@operation("BINARY_SLICE")
def _binary_slice(m: Machine, frame: Frame, op: Op) -> None:
    stop, start, owner = frame.pop(m), frame.pop(m), frame.pop(m)
    frame.push(owner.item(m, Slice(start, stop, Constant(None))))


@operation("STORE_SLICE")
def _store_slice(m: Machine, frame: Frame, op: Op) -> None:
    stop, start, owner, value = frame.pop(m), frame.pop(m), frame.pop(m), frame.pop_raw()
    owner.set_item(m, Slice(start, stop, Constant(None)), value)


# Operators


@operation("BINARY_OP")
def _binary_op(m: Machine, frame: Frame, op: Op) -> None:
    stack = frame.stack
    right, left = stack.pop().realize(m), stack.pop().realize(m)
    if op.value == "[]":  # from 3.14
        stack.append(left.item(m, right))
    elif op.value in INPLACE:
        frame.push(m.operators.inplace(op.value, left, right))
    else:
        frame.push(m.operators.binary(op.value, left, right))


@operation("COMPARE_OP")
def _compare_op(m: Machine, frame: Frame, op: Op) -> None:
    stack = frame.stack
    right, left = stack.pop().realize(m), stack.pop().realize(m)
    frame.push(m.operators.compare(op.value, left, right))


@operation("IS_OP")
def _is_op(m: Machine, frame: Frame, op: Op) -> None:
    stack = frame.stack
    right, left = stack.pop().realize(m), stack.pop().realize(m)
    frame.push(Constant(m.operators.is_(left, right) != bool(op.arg)))


@operation("CONTAINS_OP")
def _contains_op(m: Machine, frame: Frame, op: Op) -> None:
    owner, value = frame.stack.pop().realize(m), frame.pop_raw()
    if not isinstance(owner, Dict):  # which does not look at a key that it cannot hold
        value = value.realize(m)
    frame.push(Constant(owner.contains(m, value) != bool(op.arg)))


@operation("UNARY_NEGATIVE")
def _negative(m: Machine, frame: Frame, op: Op) -> None:
    frame.push(m.operators.unary("-", frame.pop(m)))


@operation("UNARY_POSITIVE")
def _positive(m: Machine, frame: Frame, op: Op) -> None:
    frame.push(m.operators.unary("+", frame.pop(m)))


@operation("UNARY_INVERT")
def _invert(m: Machine, frame: Frame, op: Op) -> None:
    frame.push(m.operators.unary("~", frame.pop(m)))


@operation("UNARY_NOT")
def _not(m: Machine, frame: Frame, op: Op) -> None:
    frame.push(Constant(not m.operators.truth(frame.pop(m))))


# Structural patterns


# Py_TPFLAGS_SEQUENCE and Py_TPFLAGS_MAPPING
_SEQUENCE, _MAPPING = 1 << 5, 1 << 6


def _has_flag(m: Machine, value: Variable, flag: int) -> bool:
    """What patterns ask of a class."""
    return bool(value.realize(m).python_type().__flags__ & flag)


@operation("MATCH_SEQUENCE")
def _match_sequence(m: Machine, frame: Frame, op: Op) -> None:
    frame.push(Constant(_has_flag(m, frame.stack[-1], _SEQUENCE)))


@operation("MATCH_MAPPING")
def _match_mapping(m: Machine, frame: Frame, op: Op) -> None:
    frame.push(Constant(_has_flag(m, frame.stack[-1], _MAPPING)))


@operation("MATCH_KEYS")
def _match_keys(m: Machine, frame: Frame, op: Op) -> None:
    keys, owner = m.iteration.elements(frame.stack[-1]), frame.stack[-2].realize(m)
    seen: set[Hashable] = set()
    for key in keys:
        hashed = key.realize(m).hash_key(m)
        if hashed in seen:
            m.errors.throw(ValueError, f"mapping pattern checks duplicate key ({m.builder.to_python(key)!r})")
        seen.add(hashed)
    if isinstance(owner, Dict):
        found = [owner.find(m, k) for k in keys]
    else:  # ``get`` is asked, which makes no entries
        none = m.builder.computed(object())
        got = [owner.method(m, "get", [k, none], {}).realize(m) for k in keys]
        found = [None if v is none else v for v in got]
    values: list[Variable] = [v for v in found if v is not None]
    frame.push(Constant(None) if len(values) != len(found) else m.builder.new_tuple(values))


#: Built-in classes whose single positional pattern matches the subject itself.
_SELF_MATCHING = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


def _check_positions(m: Machine, cls: type, declared: object, count: int, named: list[str]) -> None:
    """Raise ``TypeError`` in the program for a pattern with more positions than its class has names for, or with a name twice."""
    name = cls.__name__
    if type(declared) is not tuple:
        m.errors.throw(TypeError, f"{name}.__match_args__ must be a tuple (got {type(declared).__name__})")
    if len(declared) < count:
        allowed = 1 if not declared and cls in _SELF_MATCHING else len(declared)
        plural = "" if allowed == 1 else "s"
        m.errors.throw(TypeError, f"{name}() accepts {allowed} positional sub-pattern{plural} ({count} given)")
    seen: set[str] = set()
    for attribute in (*declared[:count], *named):
        if type(attribute) is not str:
            raise Unsupported("__match_args__ with what is no name")
        if attribute in seen:
            m.errors.throw(TypeError, f"{name}() got multiple sub-patterns for attribute {attribute!r}")
        seen.add(attribute)


@operation("MATCH_CLASS")
def _match_class(m: Machine, frame: Frame, op: Op) -> None:
    names, cls, subject = frame.pop(m), frame.pop(m), frame.pop(m)
    real = looked_up(m, cls)
    if not m.operators.truth(m.calls.call(m.builder.known(isinstance), [subject, cls], {})):
        frame.push(Constant(None))
        return
    attributes = list(m.builder.to_python(names))
    if op.arg == 1 and not attributes and real in _SELF_MATCHING:
        frame.push(m.builder.new_tuple([subject]))
        return
    if op.arg:
        declared = (
            m.builder.to_python(cls.realize(m).attribute(m, "__match_args__"))
            if hasattr(real, "__match_args__")
            else ()
        )
        _check_positions(m, real, declared, op.arg, attributes)
        attributes = [*declared[: op.arg], *attributes]
    try:
        frame.push(m.builder.new_tuple([subject.realize(m).attribute(m, name) for name in attributes]))
    except SymbolicRaise as raised:
        if not issubclass(raised.exception.python_type(), AttributeError):
            raise
        frame.push(Constant(None))
