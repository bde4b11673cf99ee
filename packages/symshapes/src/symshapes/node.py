"""`SymNode`: what stands behind a `torch.SymInt`, `SymFloat` or `SymBool`.

Flows in: the calls that torch's C++ and its Python classes make by name on `.node`. Flows out: new nodes, or answers
from the `ShapeEnv` with guards. Which names are called was found by recording them on torch 2.11 and 2.13.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Protocol

import sympy
import torch
from sympy import Add, Expr, Integer, Pow, S

from symshapes.arithmetic import OPERATIONS, applied
from symshapes.constraints import Constraints, negation, relation, truth
from symshapes.expr.floats import constant, is_number, number_of
from symshapes.expr.functions import Mod
from symshapes.facts.layout import channels_innermost, grows_outward, is_block, is_nested


class Environment(Protocol):
    """What a node asks of the `ShapeEnv` that it belongs to."""

    constraints: Constraints
    answers: Any
    """Who is asked in its place, of a call that goes on with one answer only; None for nobody."""
    exact: bool
    """Whether torch goes the way it goes with sizes that are plain numbers, each decision guarded, also where it would settle for another."""
    nodes: dict[Any, SymNode]
    """Nodes by what they are made of: the same few are composed thousands of times."""

    def remember(self, key: Any, node: SymNode) -> SymNode:
        """The node, which `nodes` has from now on."""
        ...

    def hint(self, expr: Any) -> Any:
        """The value of an expression on the hints, or None if it has unbacked symbols."""
        ...

    def statically_known(self, condition: Any) -> bool | None:
        """The truth of a condition for all inputs that pass the guards so far; None if it depends. No guard."""
        ...

    def evaluate(self, expr: Any, hint: Any = None) -> Any:
        """The value of a condition or an expression, with a guard where it depends."""
        ...

    def evaluate_size_oblivious(self, condition: Any, hint: Any = None) -> bool:
        """Like `evaluate`, but unbacked sizes are taken to be neither 0 nor 1."""
        ...

    def other_than_one(self, condition: Any) -> bool | None:
        """The truth of a condition that turns on a size's being 1 that may be more, where it is not; None for any other."""
        ...

    repeating: set[Any]
    """Sizes that are 1 or those of what they are repeated to, which only the run tells."""

    def turns_on_repeating(self, condition: Any) -> bool:
        """Whether it compares one of `repeating` for equality."""
        ...

    def expect_true(
        self,
        condition: Any,
        hint: Any = None,
        error: type[Exception] = RuntimeError,
        message: str | None = None,
        line: str | None = None,
    ) -> bool:
        """Whether a condition that the program promises holds; if only the run can tell, what is raised there."""
        ...


_SHIFTED = 64
"""So many bits at most a number is shifted by as a multiplication or division."""


_YES, _NO = True.__bool__, False.__bool__
_IS: dict[type, tuple[Callable[[], bool], ...]] = {
    int: (_YES, _NO, _NO),
    float: (_NO, _YES, _NO),
    bool: (_NO, _NO, _YES),
}


class SymNode:
    """An expression with its environment, its hint (None: known only at run time) and its Python type."""

    __slots__ = (
        "__weakref__", "_expr", "_known", "_version", "env", "hint", "is_bool", "is_float", "is_int", "pytype",
    )  # fmt: skip

    # Callables of their own, without a Python frame: torch asks these whenever it copies a number, 25 times an operator.
    is_int: Callable[[], bool]
    """Whether it stands for an int."""
    is_float: Callable[[], bool]
    """Whether it stands for a float."""
    is_bool: Callable[[], bool]
    """Whether it stands for a bool."""

    def __init__(self, expr: Any, env: Environment, hint: Any, pytype: type) -> None:
        self.is_int, self.is_float, self.is_bool = _IS[pytype]
        self._expr = expr
        self._version = 0  # of the constraints that the expression has been simplified by
        self._known: bool | None = None  # of a condition, once it is: more is learned, nothing forgotten
        self.env = env
        self.hint = hint
        self.pytype = pytype

    @property
    def expr(self) -> Any:
        """The expression, with the equalities that are known by now put in."""
        if self._version != self.env.constraints.version:
            self._expr = self.env.constraints.simplify(self._expr)
            self._version = self.env.constraints.version
        return self._expr

    # What it is

    def is_symbolic(self) -> bool:
        """True: a node stands for more than one value."""
        return True

    def is_nested_int(self) -> bool:
        """False: no size of a nested tensor is made here."""
        return False

    def nested_int(self) -> None:
        """None: see `is_nested_int`."""
        return None

    def nested_int_coeff(self) -> None:
        """None: see `is_nested_int`."""
        return None

    def has_hint(self) -> bool:
        """Whether an example value is known."""
        return self.hint is not None

    def is_constant(self) -> bool:
        """Whether one value is left; torch then takes the value itself."""
        expr = self.expr
        return is_number(expr) or expr is S.true or expr is S.false

    def maybe_as_int(self) -> int | None:
        """The int that it is by now; None if several are left."""
        expr = self.expr
        return int(expr) if expr.is_Integer and self.pytype is int else None

    constant_int = maybe_as_int

    def constant_bool(self) -> bool | None:
        """The bool that it is by now; None if both are left."""
        expr = self.expr
        return bool(expr) if expr is S.true or expr is S.false else None

    def maybe_as_bool(self) -> bool | None:
        """The same as `constant_bool`."""
        return self.constant_bool()

    def maybe_as_float(self) -> float | None:
        """The float that it is by now; None if several are left."""
        return float(number_of(self.expr)) if self.pytype is float and is_number(self.expr) else None

    def __str__(self) -> str:
        """The expression as text; torch asks for it as `str`."""
        return _text(self.expr)

    __repr__ = _graph_repr = __str__

    def clone(self) -> SymNode:
        """The node itself, which never changes."""
        return self

    def __deepcopy__(self, memo: Any) -> SymNode:
        return self

    def __copy__(self) -> SymNode:
        return self

    # Values, with guards

    def int_(self) -> int:
        """Its value as an int, with a guard."""
        return self.guard_int("", 0)

    def bool_(self) -> bool:
        """Its value as a bool, with a guard."""
        return self.guard_bool("", 0)

    def float_(self) -> float:
        """Its value as a float, with a guard."""
        return self.guard_float("", 0)

    def guard_int(self, file: str, line: int) -> int:
        """Its value as an int, with a guard; `file` and `line` are torch's, who asks."""
        return int(self.env.evaluate(self.expr, self.hint))

    def guard_float(self, file: str, line: int) -> float:
        """Its value as a float, with a guard."""
        return float(self.env.evaluate(self.expr, self.hint))

    def guard_bool(self, file: str, line: int) -> bool:
        """Its value as a bool, with a guard."""
        if self._known is None:
            if self.env.answers is not None:
                return bool(self.env.answers.of(self.expr, self.hint))
            self._known = bool(self.env.evaluate(self.expr, self.hint))
        return self._known

    def guard_size_oblivious(self, file: str, line: int) -> bool:
        """Its value as a bool, where sizes that nobody knows count as neither 0 nor 1."""
        return self.env.evaluate_size_oblivious(self.expr, self.hint)

    def guard_or_false(self, file: str, line: int) -> bool:
        """Its value as a bool, with a guard; False where nobody knows it, or it turns on a size's being 1 that may be more.

        Torch relies on such an answer where it adds up what was repeated: of a size that is repeated if it is 1 there is none.
        """
        return self._guard_or(False)

    def guard_or_true(self, file: str, line: int) -> bool:
        """Its value as a bool, with a guard; True where nobody knows it, or it turns on a size's being 1 that may be more."""
        return self._guard_or(True)

    def is_sure(self) -> bool:
        """Whether it holds, with a guard; nothing follows from its not being sure."""
        return self._otherwise(False)

    def _guard_or(self, otherwise: bool) -> bool:
        if self.env.repeating and self._statically_known() is None and self.env.turns_on_repeating(self.expr):
            return self.guard_bool("", 0)
        return self._otherwise(otherwise)

    def _otherwise(self, otherwise: bool) -> bool:
        known = self._statically_known()
        if known is not None:
            return known
        if self.hint is None or self.env.other_than_one(self.expr) is not None:
            return otherwise
        return self.guard_bool("", 0)

    def _statically_known(self) -> bool | None:
        if self._known is None:
            self._known = self.env.statically_known(self.expr)
        return self._known

    def statically_known_true(self, file: str = "", line: int = 0) -> bool:
        """Whether it is true whatever the sizes; adds no guard, but where the environment's `exact` says that torch's way is to be eager's."""
        if self._statically_known() is True or _within_machine(self.expr):
            return True
        return self.env.exact and self.hint is not None and self.guard_bool(file, line)

    def expect_true(self, file: str, line: int) -> bool:
        """Take it for true: checked when the program runs if it cannot be now."""
        if self._statically_known() is not None:
            return self._known is True
        # Of a length that may be -1 torch takes for granted that it is not, but then it stands for what is left: nobody knows.
        if (
            "InferSize" in file
            and self.hint is None
            and isinstance(self.expr, (sympy.Gt, sympy.Ge, sympy.Lt, sympy.Le))
        ):
            return bool(self.env.evaluate(self.expr))
        # Eager's errors of `x[i]` are IndexErrors; torch says no more than where it asks.
        return self.env.expect_true(self.expr, self.hint, IndexError if "TensorIndexing" in file else RuntimeError)

    def expect_size(self, file: str, line: int) -> bool:
        """Take it for a size, which is not negative."""
        return self.env.expect_true(relation(sympy.Ge, self.expr, S.Zero))

    # New nodes

    def wrap_int(self, number: int) -> SymNode:
        """The node of a known int."""
        found = self.env.nodes.get(number)
        if found is None:
            found = self.env.remember(number, SymNode(Integer(number), self.env, int(number), int))
        return found

    def wrap_float(self, number: float) -> SymNode:
        """The node of a known float."""
        return SymNode(constant(float(number)), self.env, float(number), float)

    def wrap_bool(self, value: bool) -> SymNode:
        """The node of a known bool."""
        return SymNode(truth(value), self.env, value, bool)

    def sym_sum(self, nodes: Sequence[SymNode]) -> SymNode:
        """The sum of several nodes, as one expression."""
        hints = [node.hint for node in nodes]
        hint = None if None in hints else sum(hints)
        return SymNode(Add(*[node.expr for node in nodes]), self.env, hint, int)

    def sym_ite(self, then: SymNode, otherwise: SymNode) -> SymNode:
        """One node or the other: the condition is guarded."""
        return then if self.guard_bool("", 0) else otherwise

    def sym_float(self) -> SymNode:
        """The node as a float."""
        if self.pytype is float:
            return self
        if self.pytype is bool:
            return self.wrap_float(float(self.guard_bool("", 0)))
        return self.applied("ToFloat")

    def sym_int(self) -> SymNode:
        """The node as an int, cut towards zero."""
        return self.trunc() if self.pytype is float else self  # type: ignore[attr-defined]

    def sym_not(self) -> SymNode:
        """The opposite condition."""
        hint = None if self.hint is None else not self.hint
        return SymNode(negation(self.expr), self.env, hint, bool)

    def round(self, digits: Any = None) -> SymNode:
        """Python's `round`: to the even neighbour in the middle; `digits` is a number or a node."""
        if digits is not None and (self.pytype is float or not isinstance(digits, int) or digits < 0):
            to = digits if isinstance(digits, SymNode) else self.wrap_int(digits)
            return self.applied("FloatRoundTo" if self.pytype is float else "IntRoundTo", to)
        return self if self.pytype is int else self.applied("FloatRound")

    def pos(self) -> SymNode:
        """The node itself."""
        return self

    def neg(self) -> SymNode:
        """The node with the other sign."""
        if self.pytype is float:
            return self.applied("FloatNeg")
        key = ("neg", self)
        made = self.env.nodes.get(key)
        if made is None:
            hint = None if self.hint is None else -self.hint
            made = self.env.remember(key, SymNode(-self.expr, self.env, hint, int))
        return made

    def abs(self) -> SymNode:
        """Its size without its sign."""
        if self.pytype is float:
            return self.applied("FloatAbs")
        if self.env.statically_known(relation(sympy.Ge, self.expr, S.Zero)):
            return self
        return SymNode(sympy.Abs(self.expr), self.env, None if self.hint is None else abs(self.hint), int)

    def is_integer(self) -> SymNode:
        """Whether the value has no fraction."""
        return self.wrap_bool(True) if self.pytype is int else self.applied("FloatIsInteger").as_condition()

    def applied(self, name: str, *others: SymNode) -> SymNode:
        """A function of `FLOAT_FUNCTIONS` of this node and others.

        Raises what Python raises where it has no value; that it has one is guarded.
        """
        made: SymNode = applied(name, (self, *others))
        return made

    def as_condition(self) -> SymNode:
        """A bool: whether an int is not 0."""
        return SymNode(
            relation(sympy.Ne, self.expr, S.Zero), self.env, None if self.hint is None else self.hint != 0, bool
        )

    def pow_by_natural(self, other: SymNode) -> SymNode:
        """An int to the power of one that is not negative."""
        exponent = other.maybe_as_int()
        if exponent is None:
            return self.applied("IntPow", other)
        hint = None if self.hint is None else self.hint**exponent
        return SymNode(Pow(self.expr, Integer(exponent)), self.env, hint, int)

    def lshift(self, other: SymNode) -> SymNode:
        """Python's `<<` of ints."""
        _refuse_floats("<<", self, other)
        bits = other.maybe_as_int()
        if bits is None or not 0 <= bits <= _SHIFTED:
            return self.applied("LShift", other)
        return self.mul(self.wrap_int(1 << bits))  # type: ignore[attr-defined]

    def rshift(self, other: SymNode) -> SymNode:
        """Python's `>>` of ints."""
        _refuse_floats(">>", self, other)
        bits = other.maybe_as_int()
        if bits is None or not 0 <= bits <= _SHIFTED:
            return self.applied("RShift", other)
        return self.int_floordiv(self.wrap_int(1 << bits))  # type: ignore[attr-defined]

    def bitwise_and(self, other: SymNode) -> SymNode:
        """Python's `&` of ints; with a mask of the lowest bits, or of all others, it is a remainder, or what is without it."""
        _refuse_floats("&", self, other)
        value, mask = (self, other.maybe_as_int()) if self.maybe_as_int() is None else (other, self.maybe_as_int())
        if mask is None or (mask & (mask + 1) if mask >= 0 else mask & -mask != -mask):
            return self.applied("BitAnd", other)
        size = Integer(mask + 1 if mask >= 0 else -mask)
        rest = Mod(value.expr, size)
        hint = None if value.hint is None else value.hint & mask
        return SymNode(rest if mask >= 0 else value.expr - rest, self.env, hint, int)

    def bitwise_or(self, other: SymNode) -> SymNode:
        """Python's `|` of ints."""
        _refuse_floats("|", self, other)
        return self.applied("BitOr", other)

    def bitwise_xor(self, other: SymNode) -> SymNode:
        """Python's `^` of ints."""
        _refuse_floats("^", self, other)
        return self.applied("BitXor", other)

    def sym_and(self, other: SymNode) -> SymNode:
        """Whether both conditions hold."""
        return self._logical(other, sympy.And, operator.and_)

    def sym_or(self, other: SymNode) -> SymNode:
        """Whether one of the conditions holds."""
        return self._logical(other, sympy.Or, operator.or_)

    and_, or_ = sym_and, sym_or

    def _logical(self, other: SymNode, kind: Any, compute: Callable[[Any, Any], Any]) -> SymNode:
        key = (kind, self, other)
        made = self.env.nodes.get(key)
        if made is None:
            hint = None if self.hint is None or other.hint is None else compute(self.hint, other.hint)
            made = self.env.remember(key, SymNode(_logical(kind, self.expr, other.expr), self.env, hint, bool))
        return made

    # Memory formats: `sizes` and `strides` are nodes or ints, outermost dimension first

    def is_contiguous(self, sizes: Sequence[Any], strides: Sequence[Any]) -> SymNode:
        """Whether strides are row-major; answers about layouts add guards."""
        return self._packed(sizes, strides, len(sizes), range(len(sizes) - 1, -1, -1))

    def is_channels_last_contiguous_2d(self, sizes: Sequence[Any], strides: Sequence[Any]) -> SymNode:
        """Whether an NCHW tensor is dense with its channels innermost."""
        return self._packed(sizes, strides, 4, channels_innermost(4))

    def is_channels_last_contiguous_3d(self, sizes: Sequence[Any], strides: Sequence[Any]) -> SymNode:
        """Whether an NCDHW tensor is dense with its channels innermost."""
        return self._packed(sizes, strides, 5, channels_innermost(5))

    def is_channels_last_strides_2d(self, sizes: Sequence[Any], strides: Sequence[Any]) -> SymNode:
        """Whether an NCHW tensor suggests channels-last: its strides grow from the channels outward."""
        return self._grows_outward(sizes, strides, 4)

    def is_channels_last_strides_3d(self, sizes: Sequence[Any], strides: Sequence[Any]) -> SymNode:
        """Whether an NCDHW tensor suggests channels-last: its strides grow from the channels outward."""
        return self._grows_outward(sizes, strides, 5)

    def is_non_overlapping_and_dense(self, sizes: Sequence[Any], strides: Sequence[Any]) -> SymNode:
        """Whether the elements fill a block of memory without gaps or overlap."""
        return self.wrap_bool(self._block(sizes, strides))

    def is_non_overlapping_and_dense_indicator(self, sizes: Sequence[Any], strides: Sequence[Any]) -> SymNode:
        """The same as 1 or 0."""
        return self.wrap_int(int(self._block(sizes, strides)))

    def _packed(
        self, sizes: Sequence[Any], strides: Sequence[Any], rank: int, inner_to_outer: Sequence[int]
    ) -> SymNode:
        size, stride = _exprs(sizes), _exprs(strides)
        return self.wrap_bool(
            len(size) == rank
            and (any(self._equal(length, 0) for length in size) or is_nested(size, stride, inner_to_outer, self._equal))
        )

    def _grows_outward(self, sizes: Sequence[Any], strides: Sequence[Any], rank: int) -> SymNode:
        size, stride = _exprs(sizes), _exprs(strides)
        order = channels_innermost(rank)
        return self.wrap_bool(len(size) == rank and grows_outward(size, stride, order, self._equal, self._less))

    def _block(self, sizes: Sequence[Any], strides: Sequence[Any]) -> bool:
        size, stride = _exprs(sizes), _exprs(strides)
        dims = [dim for dim in range(len(size)) if not self._less(size[dim], 2)]
        return is_block(size, stride, dims, self._known_equal, self._equal)

    def _equal(self, left: Any, right: Any) -> bool:
        return self._holds(sympy.Eq, left, right)

    def _less(self, left: Any, right: Any) -> bool:
        return self._holds(sympy.Lt, left, right)

    def _holds(self, kind: Any, left: Any, right: Any) -> bool:
        """A comparison, with a guard; where it needs a value that there is none of, no."""
        condition = relation(kind, _expr(left), _expr(right))
        known = self.env.statically_known(condition)
        if known is not None:
            return known
        if self.env.hint(condition) is None:
            return False
        return bool(self.env.evaluate(condition))

    def _known_equal(self, left: Any, right: Any) -> bool:
        return self.env.statically_known(relation(sympy.Eq, _expr(left), _expr(right))) is True


@lru_cache(maxsize=1 << 14)
def _text(expr: Any) -> str:
    """What `str` says, once for each expression: graphs print the same few sizes thousands of times."""
    return str(expr)


_CLASSES: dict[type, Callable[[SymNode], Any]] = {int: torch.SymInt, float: torch.SymFloat, bool: torch.SymBool}


def number_of_node(node: SymNode) -> Any:
    """The number that a node stands for: a plain one where one is left, as torch's own operators give it."""
    known = {int: node.maybe_as_int, float: node.maybe_as_float, bool: node.maybe_as_bool}[node.pytype]()
    return _CLASSES[node.pytype](node) if known is None else known


def _within_machine(condition: Any) -> bool:
    """Whether it says of a number no more than that it is not above the largest that torch's own can be: where a slice without an end ends."""
    return isinstance(condition, sympy.Le) and condition.rhs.is_Integer and bool(condition.rhs >= 2**63 - 1)


def _refuse_floats(sign: str, left: SymNode, right: SymNode) -> None:
    if float in (left.pytype, right.pytype):
        kinds = f"{left.pytype.__name__!r} and {right.pytype.__name__!r}"
        raise TypeError(f"unsupported operand type(s) for {sign}: {kinds}")


def _exprs(values: Sequence[Any]) -> list[Expr]:
    return [_expr(value) for value in values]


def _expr(value: Any) -> Expr:
    if isinstance(value, SymNode):
        return value.expr
    if isinstance(value, Expr):
        return value
    return Integer(value) if isinstance(value, int) else value.node.expr


def _logical(kind: Any, left: Any, right: Any) -> Any:
    strong = truth(kind is sympy.Or)
    if left is strong or right is strong:
        return strong
    weak = truth(kind is sympy.And)
    if left is weak:
        return right
    if right is weak or left == right:
        return left
    return _joined(kind, left, right)


@lru_cache(maxsize=1 << 14)
def _joined(kind: Any, left: Any, right: Any) -> Any:
    """Two conditions in one: sympy sorts them, which takes half a millisecond."""
    return kind(left, right, evaluate=False)


SymNode.str = SymNode.__str__  # type: ignore[attr-defined]  # in the class body it would hide the type
for _name, _operation in OPERATIONS.items():
    setattr(SymNode, _name, _operation)
