"""Reads bodies back from the text that they print as (`ir/text.py`).

Flows in: text. Flows out: a `Body` that prints as this text, or an error with the line that is wrong.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from inductor.ir.body import Body
from inductor.ir.operations import (
    Bitcast,
    Cast,
    Constant,
    Elementwise,
    Expr,
    IndexExpr,
    Indirect,
    Load,
    Number,
    Op,
    Reduce,
    Ref,
    Round,
    Scan,
    Store,
    StoreMode,
    Symbol,
    Where,
)
from inductor.ops import COMPUTE_DTYPES, INDEX_RULES
from inductor.primitives import PRIMITIVES, REDUCTIONS, SCANS
from symshapes import index_symbol, parse_expr

T = TypeVar("T")
_MODES: dict[str, StoreMode] = {"add": "add", "mul": "mul", "max": "max", "min": "min", "total": "total"}
_DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in (*COMPUTE_DTYPES, torch.float16, torch.bfloat16)}


def parse_body(text: str) -> Body:
    """The body that printed as `text`.

    Raises:
        ValueError: the text is none of a body: with the line that is wrong, and why.
    """
    match statements(text, "body"):
        case [ast.FunctionDef() as function]:
            return read_body(function)
    raise ValueError("no text of a body: it is one function")


def read_body(function: ast.FunctionDef) -> Body:
    """The body that printed as a function.

    Raises:
        ValueError: it is none of a body.
    """
    match function.args:
        case ast.arguments(posonlyargs=[], vararg=None, kwarg=None, defaults=[]) as variables:
            pass
        case _:
            raise ValueError("no text of a body: its variables have no defaults")
    reader = _Reader()
    for_each(function.body, reader.line)
    return Body(
        tuple(reader.symbols.named(arg.arg) for arg in variables.args),
        tuple(reader.symbols.named(arg.arg) for arg in variables.kwonlyargs),
        tuple(reader.ops),
    )


def statements(text: str, kind: str) -> list[ast.stmt]:
    """The statements of a text.

    Raises:
        ValueError: it has the form of none; `kind` says of what it should be.
    """
    try:
        return ast.parse(text).body
    except SyntaxError as error:
        raise ValueError(f"no text of a {kind}: {error}") from error


def for_each(lines: Sequence[ast.stmt], read: Callable[[ast.stmt], None]) -> None:
    """Read line after line.

    Raises:
        ValueError: what `read` raises, with the line.
    """
    for line in lines:
        try:
            read(line)
        except ValueError as error:
            raise ValueError(f"line {line.lineno}, {ast.unparse(line).splitlines()[0]}: {error}") from error


class Symbols:
    """The symbols of a text by name; one that no line declares is an integer from zero: a loop variable, or a position."""

    def __init__(self) -> None:
        self._known: dict[str, Symbol] = {}

    def declare(self, name: str, known: ast.expr) -> None:
        """Add one, of which `known` is true."""
        self._known[name] = Symbol(name, **_assumptions(known))

    def declared(self, name: str) -> bool:
        """Whether there is one of the name so far."""
        return name in self._known

    def named(self, name: str) -> Symbol:
        """The one of the name."""
        if name not in self._known:
            self._known[name] = index_symbol(name)
        return self._known[name]

    def expr(self, node: ast.expr) -> Expr:
        """An expression over them."""
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        functions = {
            part.func.id for part in ast.walk(node) if isinstance(part, ast.Call) and isinstance(part.func, ast.Name)
        }
        return parse_expr(ast.unparse(node), {name: self.named(name) for name in sorted(names - functions)})


class _Reader:
    """Reads the lines in their order; `ops` are those read so far."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.symbols = Symbols()
        self._values: dict[str, Ref] = {}

    def line(self, line: ast.stmt) -> None:
        match line:
            case ast.AnnAssign(ast.Name(name), declared, None):
                self.symbols.declare(name, declared)
            case ast.AnnAssign(ast.Name(name), ast.Name(dtype), ast.Call() as call):
                op = self._operation(name, named(_DTYPES, dtype, "dtype"), call)
                self._values[name] = Ref(len(self.ops))
                self.ops.append(op)
            case ast.Expr(ast.Call(ast.Name("store"), [buffer, index, value], keywords)):
                mode = _keyword(keywords, "mode", lambda node: named(_MODES, string(node), "mode of a store"))
                self.ops.append(
                    Store(
                        string(buffer),
                        self.symbols.expr(index),
                        self._value(value),
                        mode,
                    )
                )
            case _:
                raise ValueError("no operation")

    def _operation(self, name: str, dtype: torch.dtype, call: ast.Call) -> Op:
        opcode = ast.unparse(call.func)
        if opcode == "scan":
            return self._scan(dtype, call)
        mask = _keyword(call.keywords, "mask", self._value)
        if mask is not None and opcode not in ("load", "indirect"):
            raise ValueError(f"{opcode} takes no mask")
        match opcode, call.args:
            case "constant", [number]:
                return Constant(_number(number, dtype), dtype)
            case "index_expr", [index]:
                return IndexExpr(self.symbols.expr(index), dtype)
            case "load", [buffer, index]:
                return Load(string(buffer), self.symbols.expr(index), mask, dtype)
            case "to_dtype", [value]:
                return Cast(self._value(value), dtype)
            case "round_to", [value, ast.Name(to)]:
                return Round(self._value(value), named(_DTYPES, to, "dtype"))
            case "bitcast", [value]:
                return Bitcast(self._value(value), dtype)
            case "where", [condition, then, otherwise]:
                return Where(self._value(condition), self._value(then), self._value(otherwise), dtype)
            case "reduce", [kind, value]:
                return Reduce(named(REDUCTIONS, string(kind), "reduction").name, self._value(value), dtype)
            case "indirect", [value, size, rule]:
                named(INDEX_RULES, string(rule), "rule of an index")
                return Indirect(
                    self._value(value), self.symbols.expr(size), self.symbols.named(name), mask, string(rule)
                )
            case _, operands:
                return self._elementwise(opcode, tuple(map(self._value, operands)), dtype)

    def _scan(self, dtype: torch.dtype, call: ast.Call) -> Op:
        backward = _keyword(call.keywords, "backward", lambda node: bool(_number(node, torch.bool)))
        match call.args:
            case [kind, value]:
                return Scan(named(SCANS, string(kind), "scan").name, self._value(value), bool(backward), dtype)
        raise ValueError(f"scan takes a kind and a value, not {len(call.args)} arguments")

    def _elementwise(self, name: str, operands: tuple[Ref, ...], dtype: torch.dtype) -> Elementwise:
        primitive = named(PRIMITIVES, name, "primitive")
        if len(operands) != primitive.arity:
            raise ValueError(f"{name} takes {primitive.arity} values, not {len(operands)}")
        dtypes = {self.ops[operand.at].dtype for operand in operands}
        if {dtype} != {known and primitive.result_dtype(known) for known in dtypes}:
            raise ValueError(f"{name} of {', '.join(sorted(map(str, dtypes)))} gives no {dtype}")
        return Elementwise(name, operands, dtype)

    def _value(self, node: ast.expr) -> Ref:
        return named(self._values, ast.unparse(node), "value")


def _keyword(given: list[ast.keyword], name: str, read: Callable[[ast.expr], T]) -> T | None:
    """The one keyword argument that there may be."""
    match given:
        case []:
            return None
        case [ast.keyword(arg, value)] if arg == name:
            return read(value)
    raise ValueError(f"no arguments but {name}= go by keyword")


def named(table: dict[str, Any], name: str, kind: str) -> Any:
    """The entry of a table, by a name that is read."""
    if name not in table:
        raise ValueError(f"no {kind}: {name}")
    return table[name]


def string(node: ast.expr) -> str:
    """The text of a string."""
    match node:
        case ast.Constant(str(text)):
            return text
    raise ValueError(f"no string: {ast.unparse(node)}")


def _number(node: ast.expr, dtype: torch.dtype) -> Number:
    match node:
        case ast.UnaryOp(ast.USub(), part):
            return -_number(part, dtype)
        case ast.Name("inf" | "nan" as name) if dtype.is_floating_point:
            return math.inf if name == "inf" else math.nan
        case ast.Constant(bool(number)) if dtype is torch.bool:
            return number
        case ast.Constant(float(number)) if dtype.is_floating_point:
            return number
        case ast.Constant(int(number)) if not dtype.is_floating_point and not isinstance(number, bool):
            return number
    raise ValueError(f"no {dtype}: {ast.unparse(node)}")


def _assumptions(node: ast.expr) -> dict[str, bool]:
    match node:
        case ast.Name("number"):
            return {}
        case ast.Name(name):
            return {name: True}
        case ast.UnaryOp(ast.Invert(), ast.Name(name)):
            return {name: False}
        case ast.BinOp(left, ast.BitAnd(), right):
            return {**_assumptions(left), **_assumptions(right)}
    raise ValueError(f"nothing that is known of a symbol: {ast.unparse(node)}")
