"""The text of a body: a Python function of its loop variables, one line an operation, that `ir/parse.py` reads back.

Flows in: loop variables and operations. Flows out: text such as

    def body(i0, *, r0):
        tmp0: float32 = load("x", 8*i0 + r0)
        tmp1: float32 = reduce("sum", tmp0)
        store("y", i0, tmp1)

Inner variables stand behind the star. Symbols that are not made as loop variables are, such as sizes, are declared before
the first operation: `s0: integer & positive`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from inductor.ir.operations import (
    Bitcast,
    Cast,
    Constant,
    Elementwise,
    IndexExpr,
    Indirect,
    Load,
    Op,
    Reduce,
    Ref,
    Round,
    Scan,
    Store,
    Symbol,
    Where,
)
from symshapes import expr_text, index_symbol


def print_body(outer_vars: Sequence[Symbol], inner_vars: Sequence[Symbol], ops: Sequence[Op]) -> str:
    """The text of a body."""
    variables = [*map(str, outer_vars), *(["*", *map(str, inner_vars)] if inner_vars else [])]
    lines = [f"def body({', '.join(variables)}):"]
    used = {*outer_vars, *inner_vars}.union(*(op.symbols() for op in ops))
    lines += [declaration(one) for one in declared(used)]
    names = [str(op.symbol) if isinstance(op, Indirect) else f"tmp{at}" for at, op in enumerate(ops)]
    for name, op in zip(names, ops, strict=True):
        call = f"{op.primitive if isinstance(op, Elementwise) else op.opcode}({', '.join(_arguments(op, names))})"
        lines.append(call if op.dtype is None else f"{name}: {dtype_name(op.dtype)} = {call}")
    return "\n    ".join(lines)


def declared(symbols: Iterable[Symbol]) -> list[Symbol]:
    """Those of the symbols that have to be declared, by name."""
    return [one for one in sorted(symbols, key=str) if one != index_symbol(one.name)]


def declaration(symbol: Symbol) -> str:
    """A symbol with what is known of it, as it was made."""
    _, given = symbol.__getnewargs_ex__()
    known = [("" if value else "~") + name for name, value in sorted(given.items()) if value is not None]
    return f"{symbol}: {' & '.join(known) or 'number'}"


def dtype_name(dtype: torch.dtype) -> str:
    """ "float32" for `torch.float32`."""
    return str(dtype).removeprefix("torch.")


def _arguments(op: Op, names: Sequence[str]) -> list[str]:
    def value(ref: Ref) -> str:
        return names[ref.at]

    def masked(mask: Ref | None) -> list[str]:
        return [] if mask is None else [f"mask={value(mask)}"]

    match op:
        case Constant(number):
            return [str(number)]
        case IndexExpr(index):
            return [expr_text(index)]
        case Load(buffer, index, mask):
            return [f'"{buffer}"', expr_text(index), *masked(mask)]
        case Store(buffer, index, stored, mode):
            return [f'"{buffer}"', expr_text(index), value(stored), *([] if mode is None else [f'mode="{mode}"'])]
        case Elementwise(_, operands):
            return list(map(value, operands))
        case Cast(source) | Bitcast(source):
            return [value(source)]
        case Round(source, to):
            return [value(source), dtype_name(to)]
        case Where(condition, then, otherwise):
            return [value(condition), value(then), value(otherwise)]
        case Reduce(kind, source):
            return [f'"{kind}"', value(source)]
        case Scan(kind, source, backward):
            return [f'"{kind}"', value(source), *(["backward=True"] if backward else [])]
        case Indirect(source, size, _, mask, rule):
            return [value(source), expr_text(size), f'"{rule}"', *masked(mask)]
