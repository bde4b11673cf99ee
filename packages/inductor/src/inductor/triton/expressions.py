"""The primitive operations as Triton expressions: one table entry each, by name and operand dtype class.

Flows in: operand texts and dtypes. Flows out: expression text for the body of a `@triton.jit` function.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from symshapes import dataclass

TRITON_DTYPES: dict[torch.dtype, str] = {
    torch.bool: "tl.int1",
    torch.uint8: "tl.uint8",
    torch.int8: "tl.int8",
    torch.int16: "tl.int16",
    torch.int32: "tl.int32",
    torch.int64: "tl.int64",
    torch.float16: "tl.float16",
    torch.bfloat16: "tl.bfloat16",
    torch.float32: "tl.float32",
    torch.float64: "tl.float64",
}
ATOMIC_DTYPES = (torch.float32, torch.float64, torch.int32, torch.int64)
"""Memory dtypes that many programs may add to at once."""
HALVES = (torch.float16, torch.bfloat16)
FACTORS = (*HALVES, torch.float32)
"""Dtypes of what is multiplied by blocks."""

# One row a primitive. Templates take operand texts {0}, {1}. A name may have entries for floats ("f"), integers ("i") and bool ("b");
# a name with "*" serves the classes that have none of their own.
TRITON: dict[str, dict[str, str]] = {
    "neg": {"*": "-{0}"},
    "abs": {"*": "tl.abs({0})", "b": "{0}"},
    "exp": {"f": "libdevice.exp({0})"},
    "exp2": {"f": "libdevice.exp2({0})"},
    "expm1": {"f": "libdevice.expm1({0})"},
    "log": {"f": "libdevice.log({0})"},
    "log1p": {"f": "libdevice.log1p({0})"},
    "log2": {"f": "libdevice.log2({0})"},
    "log10": {"f": "libdevice.log10({0})"},
    "rsqrt": {"f": "libdevice.rsqrt({0})"},
    "sin": {"f": "libdevice.sin({0})"},
    "cos": {"f": "libdevice.cos({0})"},
    "tan": {"f": "libdevice.tan({0})"},
    "asin": {"f": "libdevice.asin({0})"},
    "acos": {"f": "libdevice.acos({0})"},
    "atan": {"f": "libdevice.atan({0})"},
    "sinh": {"f": "libdevice.sinh({0})"},
    "cosh": {"f": "libdevice.cosh({0})"},
    "tanh": {"f": "libdevice.tanh({0})"},
    "asinh": {"f": "libdevice.asinh({0})"},
    "acosh": {"f": "libdevice.acosh({0})"},
    "atanh": {"f": "libdevice.atanh({0})"},
    "erf": {"f": "libdevice.erf({0})"},
    "erfc": {"f": "libdevice.erfc({0})"},
    "lgamma": {"f": "libdevice.lgamma({0})"},
    "sqrt": {"f": "libdevice.sqrt({0})"},
    "reciprocal": {"f": "prelude.divide(1.0, {0})"},
    "sigmoid": {"f": "prelude.divide(1.0, 1.0 + libdevice.exp(-{0}))"},
    "round": {"f": "libdevice.rint({0})", "i": "{0}"},
    "floor": {"f": "libdevice.floor({0})", "i": "{0}"},
    "ceil": {"f": "libdevice.ceil({0})", "i": "{0}"},
    "trunc": {"f": "libdevice.trunc({0})", "i": "{0}"},
    "sign": {"*": "prelude.sign({0})", "b": "{0}"},
    "bitwise_not": {"i": "~{0}", "b": "{0} == 0"},
    "isnan": {"f": "{0} != {0}", "*": "({0} != {0})"},
    "isinf": {"f": "tl.abs({0}) == float('inf')"},
    "signbit": {"f": "libdevice.signbit({0}) != 0", "i": "{0} < 0"},
    "logical_not": {"*": "{0} == 0"},
    "tf32": {"f": "{0}"},
    "add": {"*": "{0} + {1}", "b": "{0} | {1}"},
    "sub": {"*": "{0} - {1}"},
    "mul": {"*": "{0} * {1}", "b": "{0} & {1}"},
    "truediv": {"f": "prelude.divide({0}, {1})"},
    "floordiv": {"f": "library.float_floor_divide({0}, {1})", "i": "prelude.floor_divide({0}, {1})"},
    "truncdiv": {"i": "{0} // {1}"},
    "fmod": {"f": "libdevice.fmod({0}, {1})", "i": "{0} % {1}"},
    "remainder": {"f": "library.float_remainder({0}, {1})", "i": "prelude.remainder({0}, {1})"},
    "pow": {"f": "libdevice.pow({0}, {1})"},
    "maximum": {"*": "prelude.maximum({0}, {1})", "b": "{0} | {1}"},
    "minimum": {"*": "prelude.minimum({0}, {1})", "b": "{0} & {1}"},
    "atan2": {"f": "libdevice.atan2({0}, {1})"},
    "copysign": {"f": "libdevice.copysign({0}, {1})"},
    "bitwise_and": {"i": "{0} & {1}", "b": "{0} & {1}"},
    "bitwise_or": {"i": "{0} | {1}", "b": "{0} | {1}"},
    "bitwise_xor": {"i": "{0} ^ {1}", "b": "{0} ^ {1}"},
    "lshift": {"i": "{0} << {1}"},
    "rshift": {"i": "{0} >> {1}"},
    "eq": {"*": "{0} == {1}"},
    "ne": {"*": "{0} != {1}"},
    "lt": {"*": "{0} < {1}"},
    "le": {"*": "{0} <= {1}"},
    "gt": {"*": "{0} > {1}"},
    "ge": {"*": "{0} >= {1}"},
    "logical_and": {"*": "({0} != 0) & ({1} != 0)"},
    "logical_or": {"*": "({0} != 0) | ({1} != 0)"},
    "short_log": {"f": "library.short_log({0})"},
    "short_cos": {"f": "library.short_cos({0})"},
    "random_bits": {"i": "prelude.random_bits({0}, {1})"},
}


def dtype_class(dtype: torch.dtype) -> str:
    """ "f" for floats, "b" for bool, "i" for integers."""
    return "f" if dtype.is_floating_point else "b" if dtype is torch.bool else "i"


def template(name: str, dtype: torch.dtype) -> str | None:
    """The expression for a primitive on operands of `dtype`; None if this backend has none."""
    entry = TRITON.get(name, {})
    return entry.get(dtype_class(dtype), entry.get("*"))


def literal(value: float | int | bool) -> str:
    """A Python scalar as source text; infinities and NaN included."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    return repr(value)


def convert(text: str, source: torch.dtype, target: torch.dtype) -> str:
    """`text`, a value of dtype `source`, as `target`, as torch's `.to` converts."""
    if target is torch.bool:
        return f"{text} != 0"
    if source is torch.bool and target.is_floating_point:
        return f"{text}.to(tl.int8).to({TRITON_DTYPES[target]})"
    return f"{text}.to({TRITON_DTYPES[target]})"


def least(dtype: torch.dtype) -> str:
    """The least number of a dtype."""
    if dtype.is_floating_point:
        return "float('-inf')"
    return "0" if dtype is torch.bool else str(torch.iinfo(dtype).min)


def greatest(dtype: torch.dtype) -> str:
    """The greatest number of a dtype."""
    if dtype.is_floating_point:
        return "float('inf')"
    return "1" if dtype is torch.bool else str(torch.iinfo(dtype).max)


@dataclass(frozen=True)
class TritonReduction:
    """What a reduction of values of a dtype starts from; how two accumulators combine (for a position: the function that keeps
    one of two pairs of value and position), and how one block of them ends as a column (for a position: the value that is there)."""

    neutral: Callable[[torch.dtype], str]
    combine: str
    finish: str = ""


TRITON_REDUCTIONS: dict[str, TritonReduction] = {
    "sum": TritonReduction(lambda _: "0", "{a} + {b}", "tl.sum({0}, 1)[:, None]"),
    "prod": TritonReduction(lambda _: "1", "{a} * {b}", "tl.reduce({0}, 1, prelude.multiply)[:, None]"),
    "max": TritonReduction(least, "prelude.maximum({a}, {b})", "tl.reduce({0}, 1, prelude.maximum)[:, None]"),
    "min": TritonReduction(greatest, "prelude.minimum({a}, {b})", "tl.reduce({0}, 1, prelude.minimum)[:, None]"),
    "argmax": TritonReduction(least, "prelude.arg_max", "tl.reduce({0}, 1, prelude.maximum)[:, None]"),
    "argmin": TritonReduction(greatest, "prelude.arg_min", "tl.reduce({0}, 1, prelude.minimum)[:, None]"),
    "any": TritonReduction(lambda _: "0", "{a} | {b}", "tl.max({0}.to(tl.int8), 1)[:, None] != 0"),
    "all": TritonReduction(lambda _: "1", "{a} & {b}", "tl.min({0}.to(tl.int8), 1)[:, None] != 0"),
}
