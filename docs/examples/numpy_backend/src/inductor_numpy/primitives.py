"""NumPy for every primitive and reduction of the loop IR, as formats over arrays: one row each.

What is in no row, or has None for a class of dtypes, the backend does not print.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

DTYPES = {
    torch.bool: "np.bool_",
    torch.uint8: "np.uint8",
    torch.int8: "np.int8",
    torch.int16: "np.int16",
    torch.int32: "np.int32",
    torch.int64: "np.int64",
    torch.float16: "np.float16",
    torch.float32: "np.float32",
    torch.float64: "np.float64",
}
"""Dtypes of memory and of values. NumPy has no bfloat16."""


@dataclass(frozen=True)
class Row:
    """A primitive's formats over floats, integers and bools; None where there is none."""

    floats: str | None
    integers: str | None = None
    bools: str | None = None


def _all(text: str) -> Row:
    return Row(text, text, text)


def _numbers(text: str) -> Row:
    return Row(text, text)


_LIKE_NUMPY = (
    "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh",
    "isnan", "isinf", "signbit",
)  # fmt: skip
"""Primitives that NumPy has by the same name."""

NUMPY: dict[str, Row] = {
    **{name: Row(f"np.{name}({{0}})") for name in _LIKE_NUMPY},
    **{f"a{name}": Row(f"np.arc{name}({{0}})") for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{name: Row(f"each(math.{name}, {{0}})") for name in ("erf", "erfc")},  # which NumPy has not
    "rsqrt": Row("1 / np.sqrt({0})"),
    "reciprocal": Row("1 / {0}"),
    "sigmoid": Row("1 / (1 + np.exp(-{0}))"),
    "neg": _numbers("-{0}"),
    "abs": _numbers("np.abs({0})"),
    "sign": Row("np.where(np.isnan({0}), 0, np.sign({0}))", "np.sign({0})", "{0}"),
    "floor": Row("np.floor({0})", "{0}"),
    "ceil": Row("np.ceil({0})", "{0}"),
    "trunc": Row("np.trunc({0})", "{0}"),
    "round": Row("np.rint({0})", "{0}"),  # ties to even
    "bitwise_not": Row(None, "~{0}", "~{0}"),
    "logical_not": _all("{0} == 0"),
    "add": _all("{0} + {1}"),
    "sub": _numbers("{0} - {1}"),
    "mul": _all("{0} * {1}"),
    "truediv": Row("{0} / {1}"),
    "pow": Row("{0} ** {1}"),
    "maximum": _all("np.maximum({0}, {1})"),
    "minimum": _all("np.minimum({0}, {1})"),
    "atan2": Row("np.arctan2({0}, {1})"),
    "copysign": Row("np.copysign({0}, {1})"),
    "bitwise_and": Row(None, "{0} & {1}", "{0} & {1}"),
    "bitwise_or": Row(None, "{0} | {1}", "{0} | {1}"),
    "bitwise_xor": Row(None, "{0} ^ {1}", "{0} ^ {1}"),
    "lshift": Row(None, "{0} << {1}"),
    "rshift": Row(None, "{0} >> {1}"),
    "floordiv": _numbers("{0} // {1}"),
    "truncdiv": Row("np.trunc({0} / {1})", "({0} - np.fmod({0}, {1})) // {1}"),
    "fmod": _numbers("np.fmod({0}, {1})"),
    "remainder": _numbers("np.remainder({0}, {1})"),
    **{
        name: _all(f"{{0}} {sign} {{1}}")
        for name, sign in {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items()
    },
    "logical_and": _all("np.logical_and({0}, {1})"),
    "logical_or": _all("np.logical_or({0}, {1})"),
}
"""By primitive; operands stand in parentheses where they are no names."""

REDUCTIONS: dict[str, str] = {
    **{kind: f"space.reduce(np.{kind}, {{0}}, dtype={{1}})" for kind in ("sum", "prod")},
    **{kind: f"space.reduce(np.{kind}, {{0}})" for kind in ("max", "min")},
    **{kind: f"space.reduce(np.{kind}, {{0}} != 0)" for kind in ("any", "all")},
    **{kind: f"space.position_of(np.{kind}, {{0}})" for kind in ("argmax", "argmin")},
}
"""By kind, over the value and the result's dtype."""


def format_of(name: str, dtype: torch.dtype) -> str:
    """The format of a primitive over operands of `dtype`.

    Raises:
        NotImplementedError: there is none.
    """
    row = NUMPY.get(name, Row(None))
    text = row.bools if dtype is torch.bool else row.floats if dtype.is_floating_point else row.integers
    if text is None:
        raise NotImplementedError(f"no NumPy for {name} of {dtype}")
    return text


def dtype_text(dtype: torch.dtype) -> str:
    """NumPy's name of a dtype.

    Raises:
        NotImplementedError: it has none.
    """
    if dtype not in DTYPES:
        raise NotImplementedError(f"NumPy has no {dtype}")
    return DTYPES[dtype]
