"""Conditions on sizes: Python source to the native stack machine's steps, or to a Python function where it must be."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable
from typing import Any

from capture.guards.kinds import ShapePredicate
from symshapes import build_python

Step = tuple[str, int]

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floordiv", ast.Mod: "mod",
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "lt", ast.LtE: "le", ast.Eq: "eq", ast.NotEq: "ne", ast.Gt: "gt", ast.GtE: "ge",
}  # fmt: skip
_CALLS = frozenset({"min", "max"})
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "floordiv", "mod", "lt", "le", "eq", "ne", "gt", "ge")},
    "min": min, "max": max, "and": lambda a, b: bool(a and b), "or": lambda a, b: bool(a or b),
}  # fmt: skip
_LARGEST = 2**62
_LARGEST_POWER = 8
_DEEPEST = 200  # values on the native stack; an expression nested deeper runs as Python


def steps_of(predicate: ShapePredicate) -> tuple[Step, ...] | None:
    """The condition as steps on a stack of 64-bit integers; None if it needs more than that."""
    if any(read.what == "float" for read in predicate.inputs):
        return None
    tree = ast.parse(predicate.code.strip(), mode="eval")
    places = {name: place for place, name in enumerate(predicate.names)}
    try:
        steps = tuple(_expression(tree.body, places))
    except _NeedsPython:
        return None
    return steps if _depth(steps) <= _DEEPEST and _fits(steps, predicate.now) else None


def compile_predicate(predicate: ShapePredicate) -> Callable[..., object]:
    """The condition as a Python function of its inputs."""
    text = f"def condition({', '.join(predicate.names)}):\n    return ({predicate.code.strip()})\n"
    names = predicate.namespace or {}
    condition: Callable[..., object] = build_python(text, names, entry="condition", title="shape guard")
    return condition


class _NeedsPython(Exception):
    """The expression has something that the stack machine lacks."""


def _depth(steps: Iterable[Step]) -> int:
    depth = most = 0
    for name, _ in steps:
        depth += 1 if name in ("push", "input") else 0 if name in ("neg", "not") else -1
        most = max(most, depth)
    return most


def _fits(steps: Iterable[Step], inputs: tuple[Any, ...]) -> bool:
    """Whether these inputs, if they are known, and all that is computed of them are numbers of 64 bits."""
    if not inputs or None in inputs:
        return True
    stack: list[int] = []
    for name, number in steps:
        if name in _ARITHMETIC:
            right = stack.pop()
            left = stack.pop()
            if name in ("floordiv", "mod") and right == 0:
                return True  # it does not hold, natively or not
            stack.append(_ARITHMETIC[name](left, right))
        elif name in ("neg", "not"):
            stack.append(-stack.pop() if name == "neg" else not stack.pop())
        else:
            stack.append(number if name == "push" else int(inputs[number]))
        if not -(2**63) < stack[-1] < 2**63:
            return False
    return True


def _expression(node: ast.expr, places: dict[str, int]) -> list[Step]:
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and abs(node.value) < _LARGEST:
        return [("push", int(node.value))]
    if isinstance(node, ast.Name) and node.id in places:
        return [("input", places[node.id])]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and _small_power(node.right):
        return _joined([_expression(node.left, places)] * ast.literal_eval(node.right), "mul")
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return [
            *_expression(node.left, places), *_expression(node.right, places), (_BINARY[type(node.op)], 0),
        ]  # fmt: skip
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
        return [*_expression(node.operand, places), ("neg" if isinstance(node.op, ast.USub) else "not", 0)]
    if isinstance(node, ast.Compare):
        return _comparison(node, places)
    if isinstance(node, ast.BoolOp) and all(_is_condition(value) for value in node.values):
        # Evaluated in full: none of the operations has an effect, and a condition that cannot be evaluated fails.
        return _joined((_expression(v, places) for v in node.values), "and" if isinstance(node.op, ast.And) else "or")
    called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    if isinstance(node, ast.Call) and called == "abs" and len(node.args) == 1 and not node.keywords:
        inside = _expression(node.args[0], places)
        return [*inside, *inside, ("neg", 0), ("max", 0)]
    if isinstance(node, ast.Call) and called in _CALLS and len(node.args) > 1 and not node.keywords:
        return _joined((_expression(argument, places) for argument in node.args), called)
    raise _NeedsPython


def _small_power(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and 1 <= node.value <= _LARGEST_POWER


def _is_condition(node: ast.expr) -> bool:
    """Whether the value is 0 or 1, so that `and` and `or` give the same natively as in Python."""
    if isinstance(node, ast.BoolOp):
        return all(_is_condition(value) for value in node.values)
    negation = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return negation or isinstance(node, ast.Compare) or (isinstance(node, ast.Constant) and type(node.value) is bool)


def _comparison(node: ast.Compare, places: dict[str, int]) -> list[Step]:
    operands = [_expression(operand, places) for operand in (node.left, *node.comparators)]
    pairs: list[list[Step]] = []
    for at, compared in enumerate(node.ops):
        if type(compared) not in _COMPARE:
            raise _NeedsPython
        pairs.append([*operands[at], *operands[at + 1], (_COMPARE[type(compared)], 0)])
    return _joined(pairs, "and")


def _joined(parts: Iterable[list[Step]], operation: str) -> list[Step]:
    steps: list[Step] = []
    for at, part in enumerate(parts):
        steps += part
        if at:
            steps.append((operation, 0))
    return steps
