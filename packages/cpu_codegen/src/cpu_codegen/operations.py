"""C++ of every primitive, as formats over its operands, and what it costs, and of every reduction: one row each. The same text
serves scalars and vectors.

What is in no row here, the backend does not support for that dtype.
"""

from __future__ import annotations

import enum

import torch

from inductor import Elementwise, Load, Op, Store
from symshapes import dataclass


class Cost(enum.Enum):
    """How a primitive is computed, which says how long it takes."""

    INSTRUCTION = "an instruction or a few"
    POLYNOMIAL = "a vectorised polynomial"
    BY_LANE = "lane by lane, by libm or a division"


@dataclass(frozen=True)
class Cpp:
    """A primitive's formats over floating, integer and bool operands; None where there is none."""

    floating: str | None
    integer: str | None = None
    boolean: str | None = None
    cost: Cost = Cost.INSTRUCTION


# Integers have neither fractions nor special values; of bools false < true.
CPP: dict[str, Cpp] = {
    "neg": Cpp("-{0}", "-{0}"),
    "abs": Cpp("abs({0})", "abs({0})", "{0}"),
    "exp": Cpp("exp({0})", cost=Cost.POLYNOMIAL),
    "exp2": Cpp("exp2({0})", cost=Cost.POLYNOMIAL),
    "expm1": Cpp("expm1({0})", cost=Cost.POLYNOMIAL),
    "log": Cpp("log({0})", cost=Cost.POLYNOMIAL),
    "log1p": Cpp("log1p({0})", cost=Cost.POLYNOMIAL),
    "log2": Cpp("log2({0})", cost=Cost.POLYNOMIAL),
    "log10": Cpp("log10({0})", cost=Cost.BY_LANE),
    "sqrt": Cpp("sqrt({0})"),
    "rsqrt": Cpp("rsqrt({0})"),
    "reciprocal": Cpp("reciprocal({0})"),
    "sin": Cpp("sin({0})", cost=Cost.POLYNOMIAL),
    "cos": Cpp("cos({0})", cost=Cost.POLYNOMIAL),
    "tan": Cpp("tan({0})", cost=Cost.BY_LANE),
    "asin": Cpp("asin({0})", cost=Cost.BY_LANE),
    "acos": Cpp("acos({0})", cost=Cost.BY_LANE),
    "atan": Cpp("atan({0})", cost=Cost.BY_LANE),
    "sinh": Cpp("sinh({0})", cost=Cost.BY_LANE),
    "cosh": Cpp("cosh({0})", cost=Cost.BY_LANE),
    "tanh": Cpp("tanh({0})", cost=Cost.POLYNOMIAL),
    "asinh": Cpp("asinh({0})", cost=Cost.BY_LANE),
    "acosh": Cpp("acosh({0})", cost=Cost.BY_LANE),
    "atanh": Cpp("atanh({0})", cost=Cost.BY_LANE),
    "erf": Cpp("erf({0})", cost=Cost.POLYNOMIAL),
    "erfc": Cpp("erfc({0})", cost=Cost.BY_LANE),
    "lgamma": Cpp("lgamma({0})", cost=Cost.BY_LANE),
    "tf32": Cpp("{0}"),
    "sigmoid": Cpp("sigmoid({0})", cost=Cost.POLYNOMIAL),
    "bitwise_not": Cpp(None, "~{0}", "!{0}"),
    "floor": Cpp("floor({0})", "{0}"),
    "ceil": Cpp("ceil({0})", "{0}"),
    "trunc": Cpp("trunc({0})", "{0}"),
    "round": Cpp("round({0})", "{0}"),
    "sign": Cpp("sign({0})", "sign({0})", "{0}"),
    "isnan": Cpp("isnan({0})"),
    "isinf": Cpp("isinf({0})"),
    "signbit": Cpp("signbit({0})"),
    "logical_not": Cpp("!truth({0})", "!truth({0})", "!{0}"),
    "add": Cpp("{0} + {1}", "{0} + {1}", "{0} | {1}"),
    "sub": Cpp("{0} - {1}", "{0} - {1}"),
    "mul": Cpp("{0} * {1}", "{0} * {1}", "{0} & {1}"),
    "truediv": Cpp("{0} / {1}"),
    "pow": Cpp("pow({0}, {1})", "pow({0}, {1})", cost=Cost.POLYNOMIAL),
    "maximum": Cpp("maximum({0}, {1})", "maximum({0}, {1})", "{0} | {1}"),
    "minimum": Cpp("minimum({0}, {1})", "minimum({0}, {1})", "{0} & {1}"),
    "atan2": Cpp("atan2({0}, {1})", cost=Cost.BY_LANE),
    "copysign": Cpp("copysign({0}, {1})"),
    "bitwise_and": Cpp(None, "{0} & {1}", "{0} & {1}"),
    "bitwise_or": Cpp(None, "{0} | {1}", "{0} | {1}"),
    "bitwise_xor": Cpp(None, "{0} ^ {1}", "{0} != {1}"),
    "lshift": Cpp(None, "lshift({0}, {1})"),
    "rshift": Cpp(None, "rshift({0}, {1})"),
    "floordiv": Cpp("floordiv({0}, {1})", "floordiv({0}, {1})", cost=Cost.BY_LANE),
    "truncdiv": Cpp("truncdiv({0}, {1})", "truncdiv({0}, {1})", cost=Cost.BY_LANE),
    "fmod": Cpp("fmod({0}, {1})", "fmod({0}, {1})", cost=Cost.BY_LANE),
    "remainder": Cpp("remainder({0}, {1})", "remainder({0}, {1})", cost=Cost.BY_LANE),
    "eq": Cpp("{0} == {1}", "{0} == {1}", "{0} == {1}"),
    "ne": Cpp("{0} != {1}", "{0} != {1}", "{0} != {1}"),
    "lt": Cpp("{0} < {1}", "{0} < {1}", "(!{0}) & {1}"),
    "le": Cpp("{0} <= {1}", "{0} <= {1}", "(!{0}) | {1}"),
    "gt": Cpp("{0} > {1}", "{0} > {1}", "{0} & (!{1})"),
    "ge": Cpp("{0} >= {1}", "{0} >= {1}", "{0} | (!{1})"),
    "logical_and": Cpp("truth({0}) & truth({1})", "truth({0}) & truth({1})", "{0} & {1}"),
    "logical_or": Cpp("truth({0}) | truth({1})", "truth({0}) | truth({1})", "{0} | {1}"),
    "short_log": Cpp("log({0})", cost=Cost.POLYNOMIAL),
    "short_cos": Cpp("cos({0})", cost=Cost.POLYNOMIAL),
    "random_bits": Cpp(None, "random_bits({0}, {1})", cost=Cost.POLYNOMIAL),
}
"""By primitive."""


@dataclass(frozen=True)
class CppReduction:
    """A reduction's accumulators (`reduce.h`), as formats over `{type}`, that of a value, and `{parts}`, how many partial results."""

    vector: str
    """Whose lanes are reduced in the end."""
    scalar: str
    """Of one value at a time."""
    cascade: str | None = None
    """In place of either, for long sums of float32: it keeps them exact."""
    value: str = "{0}"
    """What is accumulated for a value."""
    of_bool: str = "{0}"
    """What is accumulated for a bool; of `bool_dtype`."""
    bool_dtype: torch.dtype = torch.bool
    partial: str = "{type}"
    """The type of what threads leave for each other."""
    merge: str = "{0}"
    """How one such is added to the accumulator `scalar`."""


def _combined(operator: str, value: str = "{0}", cascade: str | None = None) -> CppReduction:
    accumulator = f"Accumulate<{operator}, {{type}}{{parts}}>"
    return CppReduction(accumulator, accumulator, cascade, value)


def _position(largest: str) -> CppReduction:
    single = f"ScalarArgBest<{largest}, {{type}}>"
    return CppReduction(
        f"ArgBest<{largest}, {{type}}>",
        single,
        of_bool="convert<u8>({0})",
        bool_dtype=torch.uint8,
        partial=single,
        merge="{0}.best, {0}.at",
    )


CPP_REDUCTIONS: dict[str, CppReduction] = {
    "sum": _combined("Sum", cascade="Cascade<{type}{parts}>"),
    "prod": _combined("Prod"),
    "max": _combined("Max"),
    "min": _combined("Min"),
    "any": _combined("Any", "truth({0})"),
    "all": _combined("All", "truth({0})"),
    "argmax": _position("true"),
    "argmin": _position("false"),
}
"""By kind of reduction."""


def reduction_row(kind: str) -> CppReduction:
    """The row of a reduction.

    Raises:
        NotImplementedError: there is none.
    """
    if kind not in CPP_REDUCTIONS:
        raise NotImplementedError(f"no C++ for the reduction {kind}")
    return CPP_REDUCTIONS[kind]


def format_of(name: str, dtype: torch.dtype) -> str | None:
    """The format of primitive `name` over operands of `dtype`; None where there is none."""
    row = CPP.get(name)
    if row is None:
        return None
    return row.boolean if dtype is torch.bool else row.floating if dtype.is_floating_point else row.integer


def way_of(op: Op) -> Cost:
    """How an operation is computed."""
    return CPP[op.primitive].cost if isinstance(op, Elementwise) and op.primitive in CPP else Cost.INSTRUCTION


def cost_of(op: Op) -> float:
    """Rough cost of one element, in quarter nanoseconds of one core."""
    way = way_of(op)
    if way is Cost.BY_LANE:
        return 40.0
    if way is Cost.POLYNOMIAL:
        return 10.0 if op.dtype is torch.float64 else 4.0
    return 1.5 if isinstance(op, Load | Store) else 0.3
