"""Marks on sizes that the program itself sets, and ranges that it promises of numbers.

In: calls of symshapes' marks within a captured program. Out: guards for ranges; a mark ends the graph, and counts from there on.
"""

from __future__ import annotations

import torch

from capture.errors import Unsupported
from symshapes import constrain_range, mark_dynamic, mark_static, mark_unbacked, maybe_mark_dynamic

from .base import Args, Interpreter, Kwargs, Variable
from .constants import Constant
from .handlers import handles, refuses
from .numbers import Symbolic

# What was recorded before knew nothing of it.
refuses(
    mark_dynamic,
    maybe_mark_dynamic,
    mark_static,
    mark_unbacked,
    why="a mark on a size, which is for what is captured after it",
)


@handles(constrain_range)
def _constrain_range(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """A guard of a symbolic number; one that is known is as it is guarded, and checked now."""
    number = args[0].realize(m) if args else kwargs["value"].realize(m)
    ends = {name: m.builder.to_python(end) for name, end in zip(("min", "max"), args[1:], strict=False)}
    ends |= {name: m.builder.to_python(end) for name, end in kwargs.items() if name != "value"}
    value = number.value if isinstance(number, Symbolic) else m.builder.to_python(number)
    if isinstance(value, torch.SymInt) and not value.node.has_hint():
        raise Unsupported("a range of a number that is known only when the program runs")
    try:
        constrain_range(value, **ends)
    except ValueError as error:  # the program's own: raised where it runs
        raise Unsupported(str(error)) from None
    return Constant(None)
