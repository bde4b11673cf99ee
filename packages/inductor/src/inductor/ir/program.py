"""The lowered graph: buffers and the operations that fill them, in program order.

Flows in: lowerings, one fx node after the other. Flows out: to the scheduler, which fuses the loops and orders all; and text such as

    program("x", s0)
    s0: integer & positive = size("x", 0)
    buffer("x", float32, "cpu", (s0, 4), (4, 1))
    buffer("buf0", float32, "cpu", (s0,), (1,))
    @loop("buf0", device="cpu", outer=(s0,), inner=(4,))
    def body(i0, *, r0):
        ...
    output(view("buf0", (s0,), (1,), 0))

that `ir/parse_program.py` reads back.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import field
from typing import Any, Literal, NamedTuple

import sympy
import torch
from torch import fx

from inductor.ir.body import Body
from inductor.ir.operations import Expr, Symbol
from inductor.ir.text import declaration, declared, dtype_name
from symshapes import SYMBOLIC, dataclass, expr_of, expr_text


@dataclass(frozen=True)
class Buffer:
    """Memory with a layout. `size` and `stride` in elements."""

    name: str
    device: torch.device
    dtype: torch.dtype
    size: tuple[Expr, ...]
    stride: tuple[Expr, ...]

    @property
    def loaded_dtype(self) -> torch.dtype:
        """Of the numbers that loops read, to which their indices are: of complex ones the parts."""
        return self.dtype.to_real()

    def __str__(self) -> str:
        parts = [
            _quoted(self.name),
            dtype_name(self.dtype),
            _quoted(str(self.device)),
            _text(self.size),
            _text(self.stride),
        ]
        return f"buffer({', '.join(parts)})"


@dataclass(frozen=True)
class StridedView:
    """A strided window into a buffer: an extern kernel's tensor argument, or an output of the graph."""

    buffer: str
    size: tuple[Expr, ...]
    stride: tuple[Expr, ...]
    offset: Expr

    def __str__(self) -> str:
        return f"view({_quoted(self.buffer)}, {_text(self.size)}, {_text(self.stride)}, {_text(self.offset)})"


@dataclass(frozen=True)
class LoopOp:
    """A loop nest: `body` for every point of `outer_sizes`, reducing over `inner_sizes`. Fills `writes`."""

    writes: tuple[str, ...]
    device: torch.device
    outer_sizes: tuple[Expr, ...]
    inner_sizes: tuple[Expr, ...]
    body: Body
    origins: tuple[fx.Node, ...]
    initial: tuple[tuple[str, str], ...] = ()
    """Pairs (written buffer, earlier buffer): the written buffer starts as a copy of the earlier one (scatter); the wrapper
    copies, or reuses the memory where the earlier buffer is not read again."""

    def __str__(self) -> str:
        parts = [*map(_quoted, self.writes), f"device={_quoted(str(self.device))}"]
        parts += [f"outer={_text(self.outer_sizes)}", f"inner={_text(self.inner_sizes)}"]
        if self.initial:
            parts.append(
                f"initial={{{', '.join(f'{_quoted(to)}: {_quoted(earlier)}' for to, earlier in self.initial)}}}"
            )
        return f"@loop({', '.join(parts)})\n{self.body}"


@dataclass(frozen=True)
class ExternOp:
    """A call of an ATen kernel. Tensor arguments in `args`/`kwargs` are `StridedView`s, sizes sympy expressions.

    `writes`: one buffer per tensor result in the flattened result (pytree order); None where the result at that place is
    no tensor or is not read."""

    writes: tuple[str | None, ...]
    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    origins: tuple[fx.Node, ...]
    scalar_writes: tuple[str, ...] = ()
    """Names of Python scalars this defines (sizes read from data)."""

    def __str__(self) -> str:
        written = [*("None" if name is None else _quoted(name) for name in self.writes), *self.scalar_writes]
        parts = [f"[{', '.join(written)}]", str(self.target), *map(_text, self.args)]
        parts += [f"{name}={_text(value)}" for name, value in self.kwargs.items()]
        return f"extern({', '.join(parts)})"


Operation = LoopOp | ExternOp


class Measure(NamedTuple):
    """A number read from an input: its size, or its stride (elements), in one dimension."""

    buffer: str
    dim: int
    what: Literal["size", "stride"] = "size"


@dataclass
class Program:
    """A whole lowered graph. Inputs are buffers too: `inputs` names them in call order (an int input is its symbol)."""

    inputs: list[str | Symbol] = field(default_factory=list)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    constants: dict[str, torch.Tensor] = field(default_factory=dict)
    """Buffers whose content is part of the graph (get_attr tensors)."""
    operations: list[Operation] = field(default_factory=list)
    outputs: list[StridedView | Expr | int | float | bool | None] = field(default_factory=list)
    private_outputs: frozenset[int] = frozenset()
    """Positions of outputs that only other compiled graphs see, as what a forward saves for its backward."""
    written: dict[int, str] = field(default_factory=dict)
    """Outputs, by position, that are the new content of an input: they may be written into its memory, which has their layout."""
    private_inputs: frozenset[int] = frozenset()
    """Positions of inputs that nobody else holds: their memory is given back with their last reader."""
    symbols: dict[Symbol, Measure | Expr | None] = field(default_factory=dict)
    """Where each symbol's value comes from at run time: an input's size or stride; an expression of symbols before it; None
    if it is an input itself, a number."""
    rewrites: Counter[str] = field(default_factory=Counter, compare=False)
    """How often each pass applied on the way here, by name; not part of what the program is."""

    def __str__(self) -> str:
        lines = [f"program({', '.join(_quoted(one) if isinstance(one, str) else str(one) for one in self.inputs)})"]
        for symbol in sorted({*declared(self._symbols()), *self.symbols}, key=str):
            line = declaration(symbol)
            if symbol in self.symbols:
                source = self.symbols[symbol]
                if isinstance(source, Measure):
                    line += f" = {source.what}({_quoted(source.buffer)}, {source.dim})"
                else:
                    line += " = given" if source is None else f" = {expr_text(source)}"
            lines.append(line)
        lines += map(str, self.buffers.values())
        lines += [f"constant({_quoted(name)})" for name in self.constants]
        lines += map(str, self.operations)
        lines.append(f"output({', '.join(map(_text, self.outputs))})")
        lines += [f"written({at}, {_quoted(name)})" for at, name in self.written.items()]
        return "\n".join(lines)

    def _symbols(self) -> set[Symbol]:
        """Those that stand outside of bodies."""
        found = {one for one in self.inputs if not isinstance(one, str)}
        for buffer in self.buffers.values():
            found |= _symbols_in((buffer.size, buffer.stride))
        for op in self.operations:
            found |= _symbols_in((op.outer_sizes, op.inner_sizes) if isinstance(op, LoopOp) else (op.args, op.kwargs))
        return found | _symbols_in(self.outputs)


def _quoted(name: str) -> str:
    return json.dumps(name)


def _symbols_in(value: Any) -> set[Symbol]:
    if isinstance(value, SYMBOLIC):
        value = expr_of(value)
    if isinstance(value, sympy.Basic):
        return {one for one in value.free_symbols if isinstance(one, Symbol)}
    if isinstance(value, StridedView):
        value = (value.size, value.stride, value.offset)
    parts: Iterable[Any] = (
        value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else ()
    )
    return {symbol for part in parts for symbol in _symbols_in(part)}


def _text(value: Any) -> str:
    """An argument, a size or an output. What no text stands for shows in angle brackets, and is not read back."""
    if isinstance(value, SYMBOLIC):
        value = expr_of(value)
    if isinstance(value, sympy.Basic):
        return expr_text(value)
    if isinstance(value, tuple):
        return (
            f"({''.join(f'{_text(part)}, ' for part in value).rstrip(' ')})"
            if len(value) == 1
            else f"({_listed(value)})"
        )
    if isinstance(value, list):
        return f"[{_listed(value)}]"
    if isinstance(value, torch.device):
        return f"device({_quoted(str(value))})"
    if isinstance(value, complex):
        return f"complex({value.real!r}, {value.imag!r})"
    if isinstance(value, str):
        return _quoted(value)
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, StridedView | torch.dtype | torch.layout | torch.memory_format):
        return str(value)
    return f"<{type(value).__name__}>"


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(map(_text, values))
