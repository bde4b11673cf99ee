"""What a pass looks for: a call of an ATen graph, or an operation of a loop body, with its arguments by name.

Flows in: a node or an operation. Flows out: a match, which holds what each variable of the pattern stands for.

An argument in a pattern is a `Var` (anything, but the same wherever the variable stands again), another pattern (what computes
the argument), or a value that it must equal. Arguments that the pattern leaves out may be anything.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import field
from typing import Any

import torch
from torch import fx

from inductor.ir.operations import Op, Ref
from inductor.ir.recording import LoopRecorder
from symshapes import SYMBOLIC, dataclass, facts_if_operator


@dataclass(frozen=True)
class Var:
    """Whatever stands in its place."""

    name: str


@dataclass(frozen=True)
class Call:
    """A call of one of `targets`, whose arguments have the names of the operator's schema. Made by `call_of`."""

    targets: tuple[Any, ...]
    arguments: Mapping[str, Any]
    only_user: bool
    """Whether nobody but the call around it may read the result."""


def call_of(*targets: Any, only_user: bool = False, **arguments: Any) -> Call:
    """The pattern of a call of one of `targets` (operator overloads) with these arguments."""
    return Call(targets, arguments, only_user)


@dataclass(frozen=True)
class Of:
    """An operation of a body, with its fields by name. Made by `op_of`."""

    kind: type[Op]
    fields: Mapping[str, Any]
    either_order: bool

    @functools.cached_property
    def parts(self) -> tuple[type[Op], ...]:
        """Kinds of operations that must be among those whose values it reads: a test that costs little and mostly decides."""
        values = (v for value in self.fields.values() for v in (value if isinstance(value, tuple) else (value,)))
        return tuple(value.kind for value in values if isinstance(value, Of))


def op_of(kind: type[Op], *, either_order: bool = False, **fields: Any) -> Of:
    """The pattern of an operation of that kind with these fields; with `either_order` its two operands may be swapped."""
    return Of(kind, fields, either_order)


@dataclass
class GraphMatch:
    """One place where a pattern of calls fits; `match[X]` is what the variable X stands for."""

    node: fx.Node
    """The call that the pattern describes from."""
    variables: dict[Var, Any] = field(default_factory=dict)
    made: list[fx.Node] = field(default_factory=list)

    def __getitem__(self, variable: Var) -> Any:
        return self.variables[variable]

    @property
    def value(self) -> Any:
        """The fake value of the whole."""
        return self.node.meta["val"]

    def argument(self, name: str) -> Any:
        """An argument of the call, or its default, by its name in the schema."""
        return argument_of(self.node, name)

    def call(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        """A new call, placed before the matched one.

        Its fake value is computed from those of its arguments. Where sizes are symbolic that might ask for guards, when they
        have been made already: there it is the matched call's, so that a pass can put but one call in its place.
        """
        graph = self.node.graph
        with graph.inserting_before(self.node):
            made = graph.create_node("call_function", target, args, kwargs, target.overloadpacket.__name__)
        self.made.append(made)
        made.meta.update(self.node.meta)
        if all(map(is_static, (self.value, *(read.meta["val"] for read in made.all_input_nodes)))):
            made.meta["val"] = target(*values_of(args), **values_of(kwargs))
        return made


def is_static(value: Any) -> bool:
    """Whether all numbers of a fake value's layout are known."""
    if isinstance(value, tuple | list):
        return all(map(is_static, value))
    if isinstance(value, torch.Tensor):
        return all(type(n) is int for n in (*value.shape, *value.stride(), value.storage_offset()))
    return not isinstance(value, SYMBOLIC)


def values_of(arguments: Any) -> Any:
    """A node's arguments with their fake values in place of nodes."""
    return fx.node.map_arg(arguments, lambda node: node.meta["val"])


@dataclass
class BodyMatch:
    """One place where a pattern of operations fits; `match[X]` is what the variable X stands for, values as `Ref`s."""

    op: Op
    body: LoopRecorder
    variables: dict[Var, Any] = field(default_factory=dict)

    def __getitem__(self, variable: Var) -> Any:
        return self.variables[variable]

    def made_by(self, variable: Var) -> Op:
        """The operation that computes a value."""
        return self.body.recorded[self.variables[variable].at]

    def dtype(self, variable: Var) -> torch.dtype:
        """Compute dtype of a value."""
        return self.body.dtype(self.variables[variable])


@functools.cache
def _signature(target: Any) -> dict[str, tuple[int, Any]]:
    """The place and the default of each argument of an operator, by name."""
    return {argument.name: (at, argument.default_value) for at, argument in enumerate(target._schema.arguments)}


def argument_of(node: fx.Node, name: str) -> Any:
    """An argument of a call of an `OpOverload`, or its default, by its name in the schema; None where it has no such argument."""
    if name in node.kwargs:
        return node.kwargs[name]
    at, default = _signature(node.target).get(name, (len(node.args), None))
    return node.args[at] if at < len(node.args) else default


def match_call(pattern: Call, node: fx.Node) -> GraphMatch | None:
    """The match of the call `node` itself, whose target is one of the pattern's; None if its arguments do not fit, or nothing is
    known of their values."""
    variables: dict[Var, Any] = {}
    if "val" not in node.meta or not _fits_call(pattern, node, variables):
        return None
    return GraphMatch(node, variables) if all("val" in read.meta for read in node.all_input_nodes) else None


def computes(target: Any) -> bool:
    """Whether calls of a target may be part of a match: they neither write nor draw random numbers, and have results."""
    facts = facts_if_operator(target)
    return facts is not None and not facts.acts


def _fits_call(pattern: Call, node: fx.Node, variables: dict[Var, Any]) -> bool:
    # A loop, not a generator: this is where a large graph's time goes.
    for name, wanted in pattern.arguments.items():
        found = argument_of(node, name)
        if not _fits(wanted, found, variables):
            return False
    return True


def _fits(wanted: Any, found: Any, variables: dict[Var, Any]) -> bool:
    if isinstance(wanted, Var):
        return _binds(wanted, found, variables)
    if isinstance(wanted, Call):
        return (
            isinstance(found, fx.Node)
            and found.target in wanted.targets
            and computes(found.target)
            and not (wanted.only_user and len(found.users) > 1)
            and _fits_call(wanted, found, variables)
        )
    return _is_equal(wanted, found)


def _binds(variable: Var, found: Any, variables: dict[Var, Any]) -> bool:
    if variable in variables:
        return _is_equal(variables[variable], found)
    variables[variable] = found
    return True


def _is_equal(wanted: Any, found: Any) -> bool:
    """1, 1.0 and True are equal but not the same argument."""
    return wanted is found or (type(wanted) is type(found) and bool(wanted == found))


def match_op(pattern: Of, operation: Op, body: LoopRecorder) -> BodyMatch | None:
    """The match of an operation that is about to be recorded; None if it does not fit."""
    if pattern.parts:
        recorded = body.recorded
        read = [type(recorded[ref.at]) for ref in operation.operands]
        for kind in pattern.parts:
            if kind not in read:
                return None
    match = BodyMatch(operation, body)
    return match if _fits_op(pattern, operation, match) else None


def _fits_op(pattern: Of, operation: Op, match: BodyMatch) -> bool:
    if type(operation) is not pattern.kind:
        return False
    for name, wanted in pattern.fields.items():
        found = getattr(operation, name)
        if not isinstance(wanted, tuple):
            if not _part_fits(wanted, found, match):
                return False
            continue
        before = dict(match.variables)
        if not _all_fit(wanted, found, match):
            match.variables = before
            if not (pattern.either_order and _all_fit(wanted, found[::-1], match)):
                return False
    return True


def _all_fit(wanted: tuple[Any, ...], found: tuple[Any, ...], match: BodyMatch) -> bool:
    return len(wanted) == len(found) and all(_part_fits(a, b, match) for a, b in zip(wanted, found, strict=True))


def _part_fits(wanted: Any, found: Any, match: BodyMatch) -> bool:
    if isinstance(wanted, Of):
        return isinstance(found, Ref) and _fits_op(wanted, match.body.recorded[found.at], match)
    if isinstance(wanted, Var):
        return _binds(wanted, found, match.variables)
    return _is_equal(wanted, found)
