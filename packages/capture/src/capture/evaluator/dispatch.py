"""Operators over variables: arithmetic, comparison, identity, in-place forms, as the data model dispatches them."""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable
from typing import Any

import torch

from capture.errors import NotConstant, SkipFrame, Unsupported
from capture.guards import GuardKind, Predicate
from capture.variables.base import Interpreter, Variable
from capture.variables.classes import Class
from capture.variables.constants import KEPT_INTEGERS, SINGLETON_TYPES, BoundBuiltin, Constant, Known
from capture.variables.enums import EnumMember
from capture.variables.functions import Function, Method
from capture.variables.instances import InstanceDict
from capture.variables.iterators import UserIterator
from capture.variables.lookups import class_lookup, has_entry, is_among, shown_type
from capture.variables.mapping_inputs import ReadOnly
from capture.variables.mapping_views import DictView, compared
from capture.variables.mappings import Dict
from capture.variables.numbers import Symbolic, is_written
from capture.variables.objects import Object
from capture.variables.operations import COMPARE, DISPATCHED, INPLACE, UNARY
from capture.variables.operator_methods import is_of_sequences, operator_method, takes
from capture.variables.sequences import Sequence, Tuple
from capture.variables.sets import Set
from capture.variables.slices import Range, Slice
from capture.variables.tensors import Tensor


def binary(m: Interpreter, symbol: str, left: Variable, right: Variable, written: str = "") -> Variable:
    """``left symbol right``. ``written`` is what the program has there: ``+=`` where ``+`` stands in for it."""
    function, name = DISPATCHED[symbol]
    written = written or symbol
    left, right = left.realize(m), right.realize(m)
    for side in (left, right):
        if side.rules_operators:
            return side.operate(m, symbol, [left, right])
    if isinstance(left, Symbolic) or isinstance(right, Symbolic):
        left, right = _operands(m, symbol, left, right)
    numeric = isinstance(left, (Tensor, Symbolic)) or isinstance(right, (Tensor, Symbolic))
    own = _has_own(m, f"__{name}__", left) or _has_own(m, f"__r{name}__", right)
    if own:
        return _own_operator(m, left, right, f"__{name}__", f"__r{name}__", written)
    if numeric and not isinstance(left, Object) and not isinstance(right, Object) and _numeric_pair(left, right):
        _check_operator(m, f"__{name}__", left)
        _check_operator(m, f"__r{name}__", right)
        return m.recorder.record("call_function", function, [left, right], {})
    if symbol == "%" and _formats(m, left, right):
        return Constant(m.operators.percent(left.value, right))  # type: ignore[attr-defined]
    for side in (left, right):
        if isinstance(side, DictView):
            joined = _asked(m, left, right, f"__{name}__") or side.with_others(m, symbol, left, right)
            if joined is not None:
                return joined
    if _has_method(m, left, f"__{name}__") or _has_method(m, right, f"__r{name}__"):
        found = _by_methods(m, left, right, f"__{name}__", f"__r{name}__", written)
        if found is not None:
            return found
    shown = left, right
    left, right = left.as_operand(m), right.as_operand(m)
    made = left.binary(m, symbol, right)
    if made is not None:
        return made
    if (
        isinstance(right, Sequence)
        and symbol == "*"
        and isinstance(left, Constant)
        and has_entry(type(left.value), "__index__")
    ):
        return binary(m, symbol, right, left, written)
    if shown != (left, right):
        raise Unsupported(f"{shown[0]!r} {written} {shown[1]!r}")  # an error that names what stands for these
    return _fold(m, INPLACE.get(written, function), symbol, left, right)


def _formats(m: Interpreter, left: Variable, right: Variable) -> bool:
    """Whether ``%`` asks a text alone for an object: all but a text of the program's with a say of its own."""
    if not isinstance(left, Constant) or not isinstance(left.value, (str, bytes)) or not isinstance(right, Object):
        return False
    if isinstance(left.value, bytes):
        raise Unsupported("an object in a format of bytes")
    is_text = is_among(str, right.cls.__mro__)
    return not (is_text and isinstance(class_lookup(m, right.cls, "__rmod__")[0], types.FunctionType))


def _operands(m: Interpreter, symbol: str, left: Variable, right: Variable) -> tuple[Variable, Variable]:
    """Operands of which one is a symbolic number: as they are where an operation of symbolic numbers takes them, else known."""
    kinds = [v.python_type() for v in (left, right)]
    if any(isinstance(v, Object) for v in (left, right)) or (symbol in "&|" and kinds == [bool, bool]):
        return left, right
    left, right = _not_a_truth(m, left), _not_a_truth(m, right)
    if not any(isinstance(v, Symbolic) for v in (left, right)) or any(isinstance(v, Tensor) for v in (left, right)):
        return left, right
    if all(isinstance(v, Symbolic) or _is_literal_number(v) for v in (left, right)):
        return _of_bool(left), _of_bool(right)
    first, second = (Constant(v.specialise(m)) if isinstance(v, Symbolic) else v for v in (left, right))
    return first, second


def _not_a_truth(m: Interpreter, value: Variable) -> Variable:
    """A symbolic bool as a known one, guarded, and a symbolic number of which one value is left as that; anything else is itself."""
    if isinstance(value, Symbolic) and (value.python_type() is bool or value.value.node.is_constant()):
        return Constant(value.specialise(m))
    return value


def _of_bool(value: Variable) -> Variable:
    """The int that a known bool counts as; anything else is itself."""
    return Constant(int(value.value)) if isinstance(value, Constant) and type(value.value) is bool else value


def _check_operator(m: Interpreter, name: str, value: Variable) -> None:
    """A tensor's operator is torch's."""
    if isinstance(value, Tensor):
        value.check_operator(m, name)


def _has_own(m: Interpreter, name: str, value: Variable) -> bool:
    """Whether a tensor's class, which is the program's, has an operator of its own."""
    return isinstance(value, Tensor) and value.has_own(m, name)


def _own_operator(
    m: Interpreter, left: Variable, right: Variable, name: str, reflected: str, written: str, *, compared: bool = False
) -> Variable:
    """The same where a class of tensors, which is the program's, has an operator of its own."""
    for owner, other, method in _in_order(m, left, right, name, reflected, compared=compared):
        found = _special(m, owner, method)
        if found is None and isinstance(owner, Tensor):
            found = owner.attribute(m, method)
        if found is None:
            continue  # a number takes no tensor
        result = m.calls.call(found, [other], {}).realize(m)
        if not (isinstance(result, Constant) and result.value is NotImplemented):
            return result
    raise Unsupported(f"{left!r} {written} {right!r} of a tensor subclass, which neither implements")


def _numeric_pair(left: Variable, right: Variable) -> bool:
    """Whether both sides can be operands of a tensor or symbolic operation."""
    return all(isinstance(v, (Tensor, Symbolic, Constant)) for v in (left, right)) or (
        isinstance(left, Tensor) or isinstance(right, Tensor)
    )


def _fold(
    m: Interpreter, function: Callable[[Any, Any], Any], symbol: str, left: Variable, right: Variable
) -> Variable:
    try:
        a, b = left.as_python(m), right.as_python(m)
    except NotConstant:
        raise Unsupported(f"{left!r} {symbol} {right!r}") from None
    return m.builder.from_python(m.builder.fold(function, [a, b]))


def _in_order(
    m: Interpreter, left: Variable, right: Variable, name: str, reflected: str, *, compared: bool = False
) -> list[tuple[Variable, Variable, str]]:
    """Who is asked, about which other operand, by which method: a subclass on the right before what it is one of."""
    order = [(left, right, name), (right, left, reflected)]
    left_type, right_type = left.python_type(), right.python_type()
    if left_type is right_type and not compared:  # which was asked already
        return order[:1]
    # By the classes that they are made from: what others take for a subclass does not count.
    if (
        left_type is not right_type
        and is_among(left_type, right_type.__mro__)
        and (compared or _overrides(m, left_type, right_type, reflected))
    ):
        order.reverse()
    return order


def _overrides(m: Interpreter, base: type, cls: type, name: str) -> bool:
    """Whether a class has another method of a name than the one that it is made from."""
    return class_lookup(m, cls, name)[0] is not class_lookup(m, base, name)[0]


def _by_methods(
    m: Interpreter, left: Variable, right: Variable, name: str, reflected: str, written: str
) -> Variable | None:
    """Dispatch to ``left.__op__`` and ``right.__rop__``; None if neither takes it."""
    for owner, other, method in _in_order(m, left, right, name, reflected):
        result = _asked(m, owner, other, method)
        if result is not None:
            return result
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        raise Unsupported(f"{left!r} with {right!r}: {name}")
    result = _as_sequences(m, left, right, name)
    if result is not None:
        return result
    if isinstance(left, Object) and left.payload is not None and not isinstance(right, Object):
        return None
    left_type, right_type = left.python_type(), right.python_type()
    if types.MappingProxyType in (left_type, right_type):
        raise Unsupported("an operator of a read-only view, which passes it on to what it shows")
    shown = "** or pow()" if written == "**" else written
    words = f"unsupported operand type(s) for {shown}: {shown_type(left_type)!r} and {shown_type(right_type)!r}"
    if written == ">>" and isinstance(left, Known) and left.value is print:
        words += _HINT
    m.errors.throw(TypeError, words)


def _hint() -> str:
    """What this interpreter adds where the program prints as it did once; nothing, from 3.14."""
    try:
        print >> None  # type: ignore[operator] # noqa: F633
    except TypeError as error:
        return "".join(str(error).partition(". ")[1:])
    raise AssertionError("print shifts")


_HINT = _hint()


def _asked(m: Interpreter, owner: Variable, other: Variable, method: str) -> Variable | None:
    """What one operand's method says of the other; None if it has none, or gives NotImplemented."""
    found = _special(m, owner, method)
    if is_of_sequences(owner.python_type(), method):  # they are asked last
        return None
    if found is not None:
        result = m.calls.call(found, [other], {}).realize(m)
    elif isinstance(owner, Tensor) and other.overrides(m):
        result = owner.method(m, method, [other], {}).realize(m)
    elif other.payload is not None and takes(owner.python_type(), method, other.python_type()):
        result = operator_method(m, method, owner, other)
    else:
        return None
    return None if isinstance(result, Constant) and result.value is NotImplemented else result


def _as_sequences(m: Interpreter, left: Variable, right: Variable, name: str) -> Variable | None:
    """Two sequences joined, or one repeated, as operators do last; None if none is there for it."""
    for owner, other in ((left, right), (right, left)) if name == "__mul__" else ((left, right),):
        if not is_of_sequences(owner.python_type(), name):
            continue
        part, kind = owner.payload or owner, other.python_type()
        if name == "__add__":
            return operator_method(m, name, part, other)
        if not has_entry(kind, "__index__"):
            m.errors.throw(TypeError, f"can't multiply sequence by non-int of type {shown_type(kind)!r}")
        return binary(m, "*", part, Constant(m.operators.index(other)))
    return None


def _special(m: Interpreter, owner: Variable, name: str) -> Variable | None:
    return owner.special(m, name) if isinstance(owner, (Object, Class, EnumMember)) else None


def _has_method(m: Interpreter, owner: Variable, name: str) -> bool:
    """Whether an operator goes by methods: always for instances; for classes and enum members if Python defines it."""
    return isinstance(owner, Object) or (isinstance(owner, Known) and _special(m, owner, name) is not None)


def inplace(m: Interpreter, symbol: str, left: Variable, right: Variable) -> Variable:
    """``left symbol right`` for ``+=`` and the other in-place operators; returns what is bound afterwards."""
    left, right = left.realize(m), right.realize(m)
    name = INPLACE[symbol].__name__
    if left.rules_operators:
        return left.operate(m, symbol, [left, right])
    if _has_own(m, f"__{name}__", left):
        given = m.calls.call(left.attribute(m, f"__{name}__"), [right], {}).realize(m)
        if not (isinstance(given, Constant) and given.value is NotImplemented):
            return given
        raise Unsupported(f"{left!r} {symbol} {right!r} of a tensor subclass that does not implement it")
    if isinstance(left, Tensor):
        methods: list[tuple[str, Variable]] = [(f"__{name}__", left)]
        if not hasattr(torch.Tensor, f"__{name}__"):
            if _has_own(m, f"__{name[1:]}__", left) or _has_own(m, f"__r{name[1:]}__", right):
                return binary(m, symbol[:-1], left, right, symbol)
            methods += [(f"__{name[1:]}__", left), (f"__r{name[1:]}__", right)]
        for method, value in methods:
            _check_operator(m, method, value)
        return m.recorder.record("call_function", INPLACE[symbol], [left, right], {})
    if is_of_sequences(left.python_type(), f"__{name}__"):
        result = _asked(m, right, left, f"__r{name[1:]}__")
        if result is not None:
            return result
    changed = left.inplace(m, symbol, right)
    if changed is not None:
        return changed
    if isinstance(left, Object):
        found = left.special(m, f"__{name}__")
        if found is not None:
            result = m.calls.call(found, [right], {}).realize(m)
            if not (isinstance(result, Constant) and result.value is NotImplemented):
                return result
    return binary(m, symbol[:-1], left, right, symbol)


def unary(m: Interpreter, symbol: str, value: Variable) -> Variable:
    """``-x``, ``+x``, ``~x`` or ``abs(x)``."""
    function, name = UNARY[symbol]
    value = _not_a_truth(m, value.realize(m))
    if value.rules_operators:
        return value.operate(m, symbol, [value])
    if isinstance(value, Symbolic) and symbol == "~" and value.python_type() is int:
        return binary(m, "-", unary(m, "-", value), Constant(1))
    if _has_own(m, name, value):
        return m.calls.call(value.attribute(m, name), [], {})
    if isinstance(value, (Tensor, Symbolic)):
        _check_operator(m, name, value)
        return m.recorder.record("call_function", function, [value], {})
    if isinstance(value, Object):
        found = value.special(m, name)
        if found is not None:
            return m.calls.call(found, [], {})
    try:
        return m.builder.from_python(m.builder.fold(function, [value.as_python(m)]))
    except NotConstant:
        raise Unsupported(f"{name} of {value!r}") from None


def compare(m: Interpreter, symbol: str, left: Variable, right: Variable) -> Variable:
    """``left symbol right`` for the six rich comparisons."""
    function, name, reflected = COMPARE[symbol]
    left, right = left.realize(m), right.realize(m)
    if type(left) is Constant and type(right) is Constant:  # of nearly all, by which nothing below goes
        return m.builder.from_python(m.builder.fold(function, [left.value, right.value]))
    for side in (left, right):
        if side.rules_operators:
            return side.operate(m, symbol, [left, right])
    if isinstance(left, Object) or isinstance(right, Object):
        found = _compare_objects(m, symbol, left, right, name, reflected)
        if found is not None:
            return found
    elif isinstance(left, Known) or isinstance(right, Known):
        found = None if _are_equal_in_c(m, symbol, left, right) else _compare_known(m, symbol, left, right)
        if found is not None:
            return found
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        if _has_own(m, name, left) or _has_own(m, reflected, right):
            return _own_operator(m, left, right, name, reflected, symbol, compared=True)
        if m.builder.is_none(left) or m.builder.is_none(right):
            return Constant(symbol == "!=")
        _check_operator(m, name, left)
        _check_operator(m, reflected, right)
        if (
            symbol in ("==", "!=")
            and not m.modes.asks([left, right])
            and (_is_no_operand(m, left) or _is_no_operand(m, right))
        ):
            return Constant(symbol == "!=")
        return m.recorder.record("call_function", function, [left, right], {})
    if isinstance(left, Symbolic) or isinstance(right, Symbolic):
        return _compare_numbers(m, symbol, left, right)
    found = compared(m, symbol, left, right)
    if found is not None:
        return found
    shown = left, right
    left, right = left.as_operand(m), right.as_operand(m)
    found = left.compare(m, symbol, right)
    if found is not None:
        return found
    if shown != (left, right) and symbol not in ("==", "!="):
        raise Unsupported(f"{shown[0]!r} {symbol} {shown[1]!r}")  # an error that names what stands for these
    try:
        a = left.bare(m) if isinstance(left, EnumMember) else left.as_python(m)
        b = right.bare(m) if isinstance(right, EnumMember) else right.as_python(m)
    except NotConstant:
        if symbol in ("==", "!="):
            return Constant(_plainly_equal(m, left, right) == (symbol == "=="))
        raise Unsupported(f"{left!r} {symbol} {right!r}") from None
    return m.builder.from_python(m.builder.fold(function, [a, b]))


def _are_equal_in_c(m: Interpreter, symbol: str, left: Variable, right: Variable) -> bool:
    """Whether they are members of enumerations, and told to be equal by no method written in Python."""
    return (
        symbol == "=="
        and type(left) is EnumMember
        and type(right) is EnumMember
        and type(class_lookup(m, type(left.value), "__eq__")[0]) is types.WrapperDescriptorType
        and type(class_lookup(m, type(right.value), "__eq__")[0]) is types.WrapperDescriptorType
    )


def _is_no_operand(m: Interpreter, value: Variable) -> bool:
    """Whether torch does not compute with it, and its class asks nobody either what it equals: a tensor is something else."""
    if isinstance(value, Constant):
        return isinstance(value.value, (str, bytes))
    if isinstance(value, EnumMember):
        return class_lookup(m, type(value.value), "__eq__")[0] is object.__eq__
    return isinstance(value, (Sequence, Dict, Set)) and value.holder is None


def _compare_numbers(m: Interpreter, symbol: str, left: Variable, right: Variable) -> Variable:
    """A comparison of which one side is a symbolic number."""
    left, right = _not_a_truth(m, left), _not_a_truth(m, right)
    sides: list[Variable] = [left, right]
    if any(isinstance(v, Symbolic) for v in sides) and all(
        isinstance(v, Symbolic) or _is_literal_number(v) for v in sides
    ):
        # A bool counts as the int that it is.
        return m.recorder.record("call_function", COMPARE[symbol][0], [_of_bool(v) for v in sides], {})
    other = left if isinstance(right, Symbolic) else right
    if symbol in ("==", "!=") and (
        isinstance(other, (Sequence, Dict, Set, Slice, Range, Function, Method))
        or (isinstance(other, Constant) and not isinstance(other.value, (int, float, complex)))
    ):
        return Constant(symbol == "!=")
    seen: set[int] = set()
    left.settle(m, seen)
    right.settle(m, seen)
    return _fold(m, COMPARE[symbol][0], symbol, left, right)


def _is_real_number(v: Variable) -> bool:
    return isinstance(v, Constant) and isinstance(v.value, (int, float))


def _is_literal_number(v: Variable) -> bool:
    """Whether it is a number that graphs compute with: they have it in their text."""
    if not isinstance(v, Constant):
        return False
    return is_written(v.value) if isinstance(v.value, int) else isinstance(v.value, float)


def _plainly_equal(m: Interpreter, left: Variable, right: Variable) -> bool:
    """Equality of values at least one of which compares by identity."""
    if m.operators.is_(left, right):
        return True
    by_identity = (Function, Method, Known, BoundBuiltin, Slice, Range)
    if isinstance(left, Method) and isinstance(right, Method):
        return _plainly_equal(m, left.function, right.function) and m.operators.is_(left.owner, right.owner)
    kinds = (Sequence, Dict, Set, Constant, *by_identity)
    if isinstance(left, kinds) and isinstance(right, kinds) and left.python_type() is not right.python_type():
        return False
    if isinstance(left, Function) and isinstance(right, Function):
        return False
    if isinstance(left, Class) and isinstance(right, Class):  # which are compared by no method
        return False
    raise Unsupported(f"{left!r} == {right!r}")


def _compare_known(m: Interpreter, symbol: str, left: Variable, right: Variable) -> Variable | None:
    """By what a metaclass or an enumeration defines in Python; None if neither does."""
    _, name, reflected = COMPARE[symbol]
    ways = [(left, right, name), (right, left, reflected)]
    if isinstance(left, Known) and isinstance(right, Known):
        ways = _in_order(m, left, right, name, reflected, compared=True)
    for owner, other, method in ways:
        if isinstance(owner, Known):
            found = _compare_known_with(m, symbol, owner, other, method)
            if found is not None:
                return found
    return None


def _compare_known_with(m: Interpreter, symbol: str, owner: Variable, other: Variable, method: str) -> Variable | None:
    found, inverted = _special(m, owner, method), False
    if found is None and symbol == "!=":
        found, inverted = _special(m, owner, "__eq__"), True
    if found is None:
        return None
    result = m.calls.call(found, [other], {}).realize(m)
    if isinstance(result, Constant) and result.value is NotImplemented:
        return None
    return Constant(not m.operators.truth(result)) if inverted else result


def _compare_objects(
    m: Interpreter, symbol: str, left: Variable, right: Variable, name: str, reflected: str
) -> Variable | None:
    for owner, other, method in _in_order(m, left, right, name, reflected, compared=True):
        if isinstance(owner, Known):
            answer = _compare_known_with(m, symbol, owner, other, method)
            if answer is not None:
                return answer
        if isinstance(owner, ReadOnly) and symbol in ("==", "!="):
            return compare(m, symbol, owner.shown(), other)
        if not isinstance(owner, Object):
            told = _asked(m, owner, other, method)
            if told is not None:
                return told
            continue
        _, holder = class_lookup(m, owner.cls, method)
        if holder is object and method == "__ne__":
            _, holder = class_lookup(m, owner.cls, "__eq__")
            if holder is object:
                continue
            found = owner.special(m, "__eq__")
            assert found is not None
            answer = m.calls.call(found, [other], {}).realize(m)
            if isinstance(answer, Constant) and answer.value is NotImplemented:
                continue
            return Constant(not m.operators.truth(answer))
        found = owner.special(m, method)
        if found is None:
            continue
        result = m.calls.call(found, [other], {}).realize(m)
        if not (isinstance(result, Constant) and result.value is NotImplemented):
            return result
    if symbol in ("==", "!="):
        if isinstance(left, Tensor) or isinstance(right, Tensor):
            raise Unsupported("comparison of a tensor with an object")
        return Constant(m.operators.is_(left, right) == (symbol == "=="))
    left_type, right_type = left.python_type(), right.python_type()
    m.errors.throw(
        TypeError,
        f"{symbol!r} not supported between instances of {shown_type(left_type)!r} and {shown_type(right_type)!r}",
    )


def _is_same_literal(m: Interpreter, a: Constant, b: Constant) -> bool:
    """Whether equal literals are one object; guarded, since equality does not say it."""
    same = a.value is b.value
    first, second = (a.origin, b.origin) if a.origin is not None else (b.origin, a.origin)
    if type(a.value) is int and a.value in KEPT_INTEGERS:
        return True
    m.identity.literals_told += 1
    if type(a.value) is not str and (m.builder.is_made(a.value) or m.builder.is_made(b.value)):
        return same  # each run makes another, which is nothing else
    if first is not None and second is not None and first != second:
        m.guards.add(first, *((GuardKind.SAME_OBJECT, second) if same else (GuardKind.DISTINCT, (second,))))
    elif first is not None and second is None and same:
        m.guards.add(first, GuardKind.ID, a.value)
    elif not same:
        _differ(m, a, b)
    return same


def _differ(m: Interpreter, *literals: Constant) -> None:
    """Two equal literals are two objects: guarded, or seen to by a break where one was computed, which makes it for real."""
    computed = [each for each in literals if each.origin is None and not each.in_code]
    if not all(each.step > 0 for each in computed):  # a break would not help: what code loads is one object again
        raise SkipFrame(f"identity of equal literals {literals[0]!r}")
    if computed:
        raise Unsupported("identity of a text that was computed", max(each.step for each in computed))
    for each, other in (literals, literals[::-1]):
        if each.origin is not None:
            text = f"{{}} is not the very {other.value!r} of the program's code, at {id(other.value):#x}"
            check = Predicate(functools.partial(operator.is_not, other.value), text)
            m.guards.add(each.origin, GuardKind.CALLABLE, check)


def _is_same_number(m: Interpreter, a: Variable, b: Variable) -> bool:
    """Whether two values, of which one is a symbolic number, are one object."""
    cls = a.python_type()
    if cls is not b.python_type() or not all(isinstance(v, Symbolic) or _is_real_number(v) for v in (a, b)):
        return False
    if cls is bool:
        return m.operators.truth(a) is m.operators.truth(b)
    if not m.operators.truth(compare(m, "==", a, b)):
        return False
    if cls is int and m.operators.index(a) in KEPT_INTEGERS:
        return True
    raise Unsupported("identity of a symbolic number")


def _is_alike(a: Any, b: Any) -> bool:
    """Whether two values of one type may be one object: they are equal, or equal not even to themselves."""
    return bool(a == b) or (a != a and b != b)


def is_same(m: Interpreter, left: Variable, right: Variable) -> bool:
    """``left is right``."""
    a, b = left.realize(m), right.realize(m)
    a = a.inner.realize(m) if isinstance(a, UserIterator) else a
    b = b.inner.realize(m) if isinstance(b, UserIterator) else b
    if a is b:
        if isinstance(a, (BoundBuiltin, Method)) and a.step < 0:
            raise Unsupported("identity of a bound method")
        return True
    if isinstance(a, Constant) and isinstance(b, Constant):
        if type(a.value) is not type(b.value) or not _is_alike(a.value, b.value):
            return False
        if type(a.value) in SINGLETON_TYPES:
            return True
        return _is_same_literal(m, a, b)
    if isinstance(a, (EnumMember, Known)) and isinstance(b, Known):
        return a.value is b.value
    if isinstance(a, Function) and isinstance(b, Function) and a.real is not None and b.real is not None:
        m.guards.note_identity(a, a.real)
        m.guards.note_identity(b, b.real)
        return a.real is b.real
    if isinstance(a, Tuple) and isinstance(b, Tuple) and not a.items and not b.items:
        return a.cls is b.cls
    if isinstance(a, Symbolic) or isinstance(b, Symbolic):
        return _is_same_number(m, a, b)
    if isinstance(a, InstanceDict) and isinstance(b, InstanceDict):
        return a.owner is b.owner
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        a.as_object(m)
        b.as_object(m)
    m.identity.distinct(a, b)
    return False
