"""`libdevice` for generated kernels: the device library, or numpy's functions under Triton's interpreter.

The interpreter runs a kernel on numpy arrays and has no device library; with this stand-in the same kernel text runs in
both. The device functions that need it live here too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import triton
import triton.language as tl
from triton.language import core
from triton.language.extra import libdevice as device_library
from triton.language.extra.cuda import gdc_wait, num_threads

from inductor.triton import prelude
from inductor.triton.mode import INTERPRETED

_NUMPY: dict[str, Callable[..., Any]] = {
    **{
        name: getattr(np, name)
        for name in (
            *(
                "exp",
                "exp2",
                "expm1",
                "log",
                "log1p",
                "log2",
                "log10",
                "sqrt",
                "sin",
                "cos",
                "tan",
                "sinh",
                "cosh",
                "tanh",
            ),
            *("rint", "floor", "ceil", "trunc", "fmod", "copysign", "signbit"),
        )
    },
    **{
        a: getattr(np, b) for a, b in {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2"}.items()
    },
    **{
        a: getattr(np, b)
        for a, b in {"asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "pow": "power"}.items()
    },
    "rsqrt": lambda x: (1 / np.sqrt(x)).astype(x.dtype),
    **{name: np.vectorize(getattr(math, name)) for name in ("erf", "erfc", "lgamma")},
}


class _Interpreted:
    """The functions of the table on the interpreter's tensors."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in _NUMPY:
            raise AttributeError(name)
        function = _NUMPY[name]

        def call(*operands: Any) -> Any:
            from triton.runtime.interpreter import TensorHandle  # noqa: PLC0415  (only the interpreter needs it)

            operands = tl.broadcast(*operands) if len(operands) == 2 else operands
            first = operands[0]
            with np.errstate(all="ignore"):
                data = np.asarray(function(*(x.handle.data for x in operands)))
            if name == "signbit":
                return tl.tensor(TensorHandle(data.astype(np.int32), tl.int32), first.type.with_element_ty(tl.int32))
            return tl.tensor(TensorHandle(data.astype(first.handle.data.dtype), first.dtype), first.type)

        call.__doc__ = f"`{name}` of the interpreter's tensors."
        return call


libdevice: Any = _Interpreted() if INTERPRETED else device_library


def _dot(a: Any, b: Any, total: Any) -> Any:
    """`dot` under the interpreter, whose own takes the bits of bfloat16 for integers."""
    return tl.dot(a.to(tl.float32), b.to(tl.float32), total, input_precision="ieee")


def _widened(x: Any, dtype: Any) -> Any:
    """`widened` under the interpreter, which would give bfloat16 an integer's bits."""
    return x.to(tl.float32).to(dtype)


def _num_threads() -> Any:
    """`num_threads` under the interpreter, which has none: a number that leaves a lane several points."""
    return tl.constexpr(32)


WAITING = 90
"""The first compute capability, times ten, whose programs can wait for launches."""


@core.builtin
def begin(_semantic=None):  # type: ignore[no-untyped-def]
    """What a kernel does first, before it touches any memory: wait for the launches before it in its stream. Where devices have an
    instruction for that, a launch is set up while the last one ends (`Binary.early`), which saves between one and two microseconds.

    It does not tell the next launch to come before its own programs have ended: programs that come then all find their places on the few
    processors that are done first, and the others have nothing to do.
    """
    arch = re.fullmatch(r"sm(\d+)[af]?", str(getattr(_semantic.builder.options, "arch", "")))
    if arch is not None and int(arch[1]) >= WAITING:
        gdc_wait(_semantic=_semantic)


def _begin() -> None:
    """`begin` under the interpreter, which runs one kernel after the other."""


@triton.jit
def widened(x, dtype):  # type: ignore[no-untyped-def]
    """Numbers in a dtype that has all of them."""
    return x.to(dtype)


@triton.jit
def dot(a, b, total):  # type: ignore[no-untyped-def]
    """`total` and a product of matrices, with nothing rounded on the way into it."""
    return tl.dot(a, b, total, input_precision="ieee")


@triton.jit
def short_dot(a, b, total):  # type: ignore[no-untyped-def]
    """`dot` of the leading bits of float32."""
    return tl.dot(a, b, total, input_precision="tf32")


@triton.jit
def short_log(x):  # type: ignore[no-untyped-def]
    """Logarithm by one instruction, which may say of what is next to 1 that it is above 0."""
    return tl.minimum(libdevice.fast_logf(x), 0.0)


@triton.jit
def short_exp(x):  # type: ignore[no-untyped-def]
    """Exponential by two instructions, for sums of many that are 1 at most: what these round of each goes up and down, and not into the
    sum, nor do numbers that are too small for a leading bit."""
    return libdevice.fast_expf(x)


@triton.jit
def short_cos(x):  # type: ignore[no-untyped-def]
    """Cosine by one instruction."""
    return libdevice.fast_cosf(x)


if INTERPRETED:
    dot, short_dot, widened = _dot, _dot, _widened
    num_threads = _num_threads
    begin = _begin
    short_log, short_exp, short_cos = libdevice.log, libdevice.exp, libdevice.cos


@triton.jit
def float_remainder(a, b):  # type: ignore[no-untyped-def]
    """Floating remainder with the sign of `b`."""
    left = libdevice.fmod(a, b)
    return tl.where((left != 0) & ((left < 0) != (b < 0)), left + b, left)


@triton.jit
def log_add_exp(a, b):  # type: ignore[no-untyped-def]
    """log(exp(a) + exp(b)), also of infinities; NaN if either is."""
    high, low = prelude.maximum(a, b), prelude.minimum(a, b)
    return tl.where(high == low, high + 0.6931471805599453, high + libdevice.log1p(libdevice.exp(low - high)))


@triton.jit
def add_exponentials(most, total, x):  # type: ignore[no-untyped-def]
    """Each lane's largest number and the sum of the exponentials of its numbers' differences from it, with those of one more block.
    -inf adds nothing, also before there is another."""
    x = tl.reshape(x, [x.shape[0], x.shape[1] // most.shape[1], most.shape[1]])
    largest = prelude.maximum(tl.reduce(x, 1, prelude.maximum), most)
    base = tl.where(largest == float("-inf"), 0.0, largest)
    return largest, total * libdevice.exp(most - base) + tl.sum(short_exp(x - base[:, None, :]), 1)


@triton.jit
def all_exponentials(most, total):  # type: ignore[no-untyped-def]
    """Those of all lanes together."""
    largest = tl.reduce(most, 1, prelude.maximum)[:, None]
    return largest, tl.sum(total * libdevice.exp(most - largest), 1)[:, None]


@triton.jit
def float_floor_divide(a, b):  # type: ignore[no-untyped-def]
    """Floating division rounding down, from the exact remainder: the quotient itself may round up to the next integer."""
    left = libdevice.fmod(a, b)
    quotient = prelude.divide(a - left, b)
    quotient = tl.where((left != 0) & ((left < 0) != (b < 0)), quotient - 1, quotient)
    down = libdevice.floor(quotient)
    down = tl.where(quotient - down > 0.5, down + 1, down)
    rounded = prelude.divide(a, b)
    down = tl.where(quotient == 0, libdevice.copysign(tl.zeros_like(rounded), rounded), down)
    return tl.where(b == 0, rounded, down)
