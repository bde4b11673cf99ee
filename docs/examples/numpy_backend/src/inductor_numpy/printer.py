"""A kernel as a Python function over NumPy arrays: each line is one operation, of all points of the loops at once.

Flows in: a `Kernel`. Flows out: text that uses `np` and what `space` holds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import sympy

from inductor import (
    INDEX_RULES,
    Bitcast,
    Cast,
    Constant,
    Elementwise,
    IndexExpr,
    Indirect,
    Kernel,
    Load,
    Reduce,
    Ref,
    Round,
    Store,
    Where,
)
from inductor_numpy.primitives import REDUCTIONS, dtype_text, format_of
from symshapes import print_expr


def print_kernel(kernel: Kernel) -> str:
    """The kernel's function: its arguments are flat arrays for buffers and ints for sizes.

    Raises:
        NotImplementedError: NumPy has no words for a dtype or an operation in it.
    """
    for arg in kernel.args:
        dtype_text(arg.dtype)
    return _Printer(kernel).text()


class _Printer:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.variables = (*kernel.body.outer_vars, *kernel.body.inner_vars)
        self.overwritten = {arg.name for arg in kernel.args if arg.role == "inout"}

    def text(self) -> str:
        kernel = self.kernel
        lines = [f"# {origin}" for origin in kernel.origins]
        lines.append(f"def {kernel.name}({', '.join(arg.name for arg in kernel.args)}):")
        lines.append(f"    space = Space({_tuple(kernel.outer_sizes)}, {_tuple(kernel.inner_sizes)})")
        lines.append("    if space.empty:\n        return")
        body = [f"    {self.line(at)}" for at in range(len(kernel.body.ops))]
        names = [str(variable) for variable in self.variables]
        if not {*names}.isdisjoint(re.findall(r"\w+", "\n".join(body))):
            lines.append(f"    [{', '.join(names)}] = space.grids")
        lines += body
        return "\n".join(lines) + "\n"

    def line(self, at: int) -> str:
        """The statement for an operation; its value goes by its position."""
        op = self.kernel.body.ops[at]
        match op:
            case Store():
                return self.store(op)
            case Indirect(value, size, symbol, mask, rule):
                checked = INDEX_RULES[rule]
                call = f"space.checked({_name(value)}, {_index(size)}, {_mask(mask)}, {checked.wraps}, {checked.error.__name__})"
                return f"tmp{at} = {symbol} = {call}"
        return f"tmp{at} = {self.value(op)}"

    def value(self, op: Any) -> str:
        match op:
            case Constant(value, dtype):
                return f"space.filled({value!r}, {dtype_text(dtype)})"
            case IndexExpr(index, dtype):
                return f"space.filled({_index(index)}, {dtype_text(dtype)})"
            case Load():
                return self.load(op)
            case Elementwise(primitive, operands):
                # Operands share a dtype, of which the result's says nothing for comparisons.
                dtype = self.kernel.body.dtype(operands[0].at)
                return format_of(primitive, dtype).format(*map(_name, operands))
            case Cast(value, dtype):
                return f"space.cast({_name(value)}, {dtype_text(dtype)})"
            case Round(value, to):
                return f"{_name(value)}.astype({dtype_text(to)}).astype(np.float32)"
            case Bitcast(value, dtype):
                return f"{_name(value)}.view({dtype_text(dtype)})"
            case Where(condition, then, otherwise):
                return f"np.where({_name(condition)}, {_name(then)}, {_name(otherwise)})"
            case Reduce(kind, value, dtype) if kind in REDUCTIONS:
                return REDUCTIONS[kind].format(_name(value), dtype_text(dtype))
        raise NotImplementedError(f"no NumPy for {op}")

    def load(self, op: Load) -> str:
        linear = self.linear(op.index)
        if linear is None or op.mask is not None:
            text = f"space.gather({op.buffer}, {_index(op.index)}, {_mask(op.mask)})"
        else:
            text = f"space.view({op.buffer}, {linear})"
        # What is loaded is no copy, but the memory itself.
        text = f"{text}.copy()" if op.buffer in self.overwritten and not text.startswith("space.gather") else text
        memory = next(arg.dtype for arg in self.kernel.args if arg.name == op.buffer)
        return text if memory is op.dtype else f"{text}.astype({dtype_text(op.dtype)})"

    def store(self, op: Store) -> str:
        linear = self.linear(op.index)
        value = _name(op.value)
        if op.mode == "add":
            return f"space.add({op.buffer}, {_index(op.index)}, {value})"
        if op.mode is None and linear is not None:
            return f"space.fill({op.buffer}, {linear}, {value})"
        if op.mode is None:
            return f"space.scatter({op.buffer}, {_index(op.index)}, {value})"
        raise NotImplementedError(f"no NumPy for a store of mode {op.mode}")

    def linear(self, index: Any) -> str | None:
        """The text of an index's offset and of its step along each loop, if it has such."""
        rest = sympy.expand(index)
        steps = [rest.coeff(variable, 1) for variable in self.variables]
        rest = sympy.expand(rest - sum(step * v for step, v in zip(steps, self.variables, strict=True)))
        known = {sympy.Symbol(arg.name) for arg in self.kernel.args if arg.role == "size"}
        free = {sympy.Symbol(symbol.name) for part in (*steps, rest) for symbol in part.free_symbols}
        return f"{_index(rest)}, {_tuple(steps)}" if free <= known else None


def _name(value: Ref) -> str:
    return f"tmp{value.at}"


def _mask(mask: Ref | None) -> str:
    return "None" if mask is None else _name(mask)


def _index(expr: Any) -> str:
    return print_expr(sympy.sympify(expr), "python")


def _tuple(exprs: Sequence[Any]) -> str:
    return f"({''.join(f'{_index(expr)}, ' for expr in exprs).rstrip(' ') if len(exprs) == 1 else ', '.join(map(_index, exprs))})"
