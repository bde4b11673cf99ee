"""Reads programs back from the text that they print as (`ir/program.py`).

Flows in: text, and the constants that it names. Flows out: a `Program` that prints as this text, without origins; or an error with
the line that is wrong.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from typing import Any

import torch

from inductor._torch import OpOverload
from inductor.ir.operations import Expr
from inductor.ir.parse import Symbols, for_each, named, read_body, statements, string
from inductor.ir.program import Buffer, ExternOp, LoopOp, Measure, Program, StridedView

_DTYPES = {name: value for name, value in vars(torch).items() if isinstance(value, torch.dtype)}
_LITERALS = {
    f"torch.{name}": value
    for name, value in vars(torch).items()
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format)
}
_FLOATS = {"inf": math.inf, "nan": math.nan}


def parse_program(text: str, constants: Mapping[str, torch.Tensor] | None = None) -> Program:
    """The program that printed as `text`.

    Args:
        constants: the tensors that are part of it, by buffer.

    Raises:
        ValueError: the text is none of a program: with the line that is wrong, and why.
    """
    reader = _Reader(constants or {})
    lines = statements(text, "program")
    for_each(lines, reader.declaration)
    for_each(lines, reader.line)
    return reader.program


class _Reader:
    def __init__(self, constants: Mapping[str, torch.Tensor]) -> None:
        self.program = Program()
        self.constants = constants
        self.symbols = Symbols()

    def declaration(self, line: ast.stmt) -> None:
        """Of a symbol: they come before all else, wherever they stand."""
        match line:
            case ast.AnnAssign(ast.Name(name), declared):
                self.symbols.declare(name, declared)

    def line(self, line: ast.stmt) -> None:
        program = self.program
        match line:
            case ast.AnnAssign(ast.Name(name), _, None):
                pass
            case ast.AnnAssign(ast.Name(name), _, ast.Name("given")):
                program.symbols[self.symbols.named(name)] = None
            case ast.AnnAssign(
                ast.Name(name), _, ast.Call(ast.Name("size" | "stride" as what), [buffer, ast.Constant(int(dim))])
            ):
                read = Measure(string(buffer), dim, "size" if what == "size" else "stride")
                program.symbols[self.symbols.named(name)] = read
            case ast.AnnAssign(ast.Name(name), _, ast.expr() as value):
                program.symbols[self.symbols.named(name)] = self.symbols.expr(value)
            case ast.Expr(ast.Call(ast.Name("program"), inputs, [])):
                program.inputs += [
                    self.symbols.named(one.id) if isinstance(one, ast.Name) else string(one) for one in inputs
                ]
            case ast.Expr(ast.Call(ast.Name("buffer"), [text, ast.Name(dtype), device, size, stride], [])):
                layout = self.sizes(size), self.sizes(stride)
                made = Buffer(string(text), _device(string(device)), named(_DTYPES, dtype, "dtype"), *layout)
                program.buffers[made.name] = made
            case ast.Expr(ast.Call(ast.Name("constant"), [text], [])):
                program.constants[string(text)] = named(dict(self.constants), string(text), "constant")
            case ast.FunctionDef(decorator_list=[ast.Call(ast.Name("loop"), writes, keywords)]):
                program.operations.append(self.loop(line, tuple(map(string, writes)), keywords))
            case ast.Expr(ast.Call(ast.Name("extern"), [ast.List(written), target, *args], keywords)):
                program.operations.append(self.extern(written, target, args, keywords))
            case ast.Expr(ast.Call(ast.Name("output"), outputs, [])):
                program.outputs += map(self.value, outputs)
            case ast.Expr(ast.Call(ast.Name("written"), [ast.Constant(int(at)), name], [])):
                program.written[at] = string(name)
            case _:
                raise ValueError("no part of a program")

    def loop(self, function: ast.FunctionDef, writes: tuple[str, ...], keywords: list[ast.keyword]) -> LoopOp:
        """A loop nest: what is said of it, and its body."""
        match {keyword.arg: keyword.value for keyword in keywords}:
            case {"device": device, "outer": outer, "inner": inner, **rest} if rest.keys() <= {"initial"}:
                pairs: tuple[tuple[str, str], ...] = ()
                match rest.get("initial"):
                    case ast.Dict(keys, values):
                        pairs = tuple(
                            (string(key or value), string(value)) for key, value in zip(keys, values, strict=True)
                        )
                sizes = self.sizes(outer), self.sizes(inner)
                return LoopOp(writes, _device(string(device)), *sizes, read_body(function), (), pairs)
        raise ValueError("a loop has a device, outer and inner sizes, and perhaps what it starts from")

    def extern(
        self, written: list[ast.expr], target: ast.expr, args: list[ast.expr], keywords: list[ast.keyword]
    ) -> ExternOp:
        """A call of an ATen kernel: buffers that it writes stand in quotes, numbers that it defines do not."""
        scalars = tuple(one.id for one in written if isinstance(one, ast.Name))
        buffers = tuple(
            None if isinstance(one, ast.Constant) and one.value is None else string(one)
            for one in written
            if not isinstance(one, ast.Name)
        )
        given = {keyword.arg or "": self.value(keyword.value) for keyword in keywords}
        return ExternOp(buffers, _operator(ast.unparse(target)), tuple(map(self.value, args)), given, (), scalars)

    def sizes(self, node: ast.expr) -> tuple[Expr, ...]:
        """A tuple of expressions."""
        match node:
            case ast.Tuple(parts):
                return tuple(map(self.symbols.expr, parts))
        raise ValueError(f"no sizes: {ast.unparse(node)}")

    def value(self, node: ast.expr) -> Any:
        """An argument or an output: a number, a literal of torch's, a view, an expression, or several of these."""
        match node:
            case ast.Constant(value) if value is None or isinstance(value, bool | int | float | str):
                return value
            case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as number)):
                return -number
            case ast.UnaryOp(ast.USub(), ast.Name("inf" | "nan" as name)) if not self.symbols.declared(name):
                return -_FLOATS[name]
            case ast.Name("inf" | "nan" as name) if not self.symbols.declared(name):
                return _FLOATS[name]
            case ast.Tuple(parts):
                return tuple(map(self.value, parts))
            case ast.List(parts):
                return list(map(self.value, parts))
            case ast.Attribute():
                return named(_LITERALS, ast.unparse(node), "literal")
            case ast.Call(ast.Name("device"), [name]):
                return _device(string(name))
            case ast.Call(ast.Name("complex"), [real, imaginary]):
                return complex(self.value(real), self.value(imaginary))
            case ast.Call(ast.Name("view"), [buffer, size, stride, offset]):
                return StridedView(string(buffer), self.sizes(size), self.sizes(stride), self.symbols.expr(offset))
        return self.symbols.expr(node)


def _device(name: str) -> torch.device:
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise ValueError(str(error).splitlines()[0]) from None


def _operator(path: str) -> Any:
    """An operator by its path below `torch.ops`."""
    found: Any = torch.ops
    for name in path.split("."):
        found = getattr(found, name, None)
    if not isinstance(found, OpOverload):
        raise ValueError(f"no operator: {path}")
    return found
