"""The primitive operations of the loop IR.

An IR body is a Python function over `ops`: calling `ops.add(a, b)` hands the call to the installed handler, so the same
body records itself (`ir.body.record`), runs on torch tensors (`handlers.interpreter`) or becomes kernel text.
Flows in: lowerings. Flows out: calls of a handler; what a primitive is says its row in `primitives.py`.

Values have one of the compute dtypes: bool, uint8, int8, int16, int32, int64, float32, float64. bfloat16 and float16
exist only in memory: a load widens to float32, a store rounds; `round_to` rounds a float32 value where the program does.
"""

from __future__ import annotations

import threading
from typing import Any

import torch

from symshapes import HALF_DTYPES, dataclass


@dataclass(frozen=True)
class IndexRule:
    """What a position that is a value may be, for `ops.indirect`."""

    wraps: bool
    """Whether -1 is the last position, as in `x[index]`; else a negative position is out of range."""
    error: type[Exception] | None
    """What the kernel raises for a position out of range; None: nothing is checked."""
    checked_before: bool = False
    """Whether a kernel before has checked it, and left -1 for what is out of range: there nothing is written, and what is read says nothing.
    Only for devices that raise later (`DeviceTraits.raises_later`)."""


INDEX_RULES: dict[str, IndexRule] = {
    "wrap": IndexRule(True, IndexError),
    "index": IndexRule(False, IndexError),
    "runtime": IndexRule(False, RuntimeError),
    "certain": IndexRule(False, None),
    "checked": IndexRule(False, None, checked_before=True),
}
"""By name, as the third operand of `ops.indirect` says: eager's `x[index]`, `embedding` and `gather` stand for the first three. The
fourth is for positions that the program computes itself, of numbers that it knows, the last for what another kernel has checked."""

COMPUTE_DTYPES: frozenset[torch.dtype] = frozenset(
    {
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.float32,
        torch.float64,
    }
)


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of a value loaded from memory of `dtype`: float16 and bfloat16 widen to float32.

    Raises:
        NotImplementedError: for a dtype the IR does not hold (complex, quantised, float8).
    """
    if dtype in HALF_DTYPES:
        return torch.float32
    if dtype in COMPUTE_DTYPES:
        return dtype
    raise NotImplementedError(f"the loop IR has no values of dtype {dtype}")


class _Dispatcher(threading.local):
    """`ops.name(...)` calls the same method of the handler that this thread installed last (see `install`)."""

    def __init__(self) -> None:
        self._handlers: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if not self._handlers:
            raise RuntimeError(f"ops.{name} called with no handler installed")
        return getattr(self._handlers[-1], name)


ops: Any = _Dispatcher()
"""What IR bodies call. Besides one method per entry of PRIMITIVES (values in, value out), a handler has:

- `constant(value, dtype)`: a Python scalar as a value.
- `index_expr(expr, dtype)`: an integer expression over loop variables and sizes as a value.
- `load(buffer, index)`: the element of `buffer` (a name) at linear offset `index` (elements, sympy); widened.
- `store(buffer, index, value, mode=None)`: write, rounded to the buffer's dtype; mode "add", "mul", "max" or "min" combines with what is
  there (scatter), "total" adds up what all points store to a place.
- `to_dtype(value, dtype)`: convert to a compute dtype, as torch's `.to` does. To float16/bfloat16: use `round_to`.
- `round_to(value, dtype)`: a float32 value rounded to float16/bfloat16 precision and widened again.
- `bitcast(value, dtype)`: the same bits read as another dtype of the same width.
- `where(condition, a, b)`: select; a and b share one dtype.
- `reduce(kind, value)`: combine `value` over all inner loop variables; see REDUCTIONS.
- `scan(kind, value, backward=False)`: combine `value` over the inner points up to this one, or from this one on; see SCANS.
- `indirect(value, size, rule="wrap")`: an int64 value as a symbol usable in index expressions, within [0, size); what else
  is allowed and what the kernel raises says INDEX_RULES[rule]. No memory is touched at a position out of range.
- `masked(mask, body, other)`: `body()` where the bool value `mask` holds, else `other`; loads in `body` touch no memory
  where the mask is false.
"""


class install:
    """Context manager: `ops` calls go to `handler` inside."""

    def __init__(self, handler: Any) -> None:
        self._handler = handler

    def __enter__(self) -> Any:
        ops._handlers.append(self._handler)
        return self._handler

    def __exit__(self, *exc: object) -> None:
        ops._handlers.pop()
